"""What came of a study: its runs read back, their spread over seeds, and paired tests."""
