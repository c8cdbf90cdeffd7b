"""What was measured: files of benchmarks read to records, and predictions judged by them."""
