"""The link between the transfer hosts of two clusters: mutual TLS, and both certificates are named in the plans.

Parts: our certificate (certificate.py), whom both ends trust (context.py), the side that asks (asking.py), the side
that answers (serving.py), both for one plan (link.py), and what is counted (counts.py).
"""
