"""The evaluation of accounting: writers, deaths, samples and counts of records."""
