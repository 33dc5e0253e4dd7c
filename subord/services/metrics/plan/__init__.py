"""The plan of the metrics: a document that operators sign, which says what the nodes of the cluster carry."""
