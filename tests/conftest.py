"""Stands here so that every test can import `builders`, which builds expressions without a grammar."""
