"""What the answers look like, for the OpenAPI document. Answers are not built from these; tests hold them
to these."""
