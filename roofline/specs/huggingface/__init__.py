"""Hugging Face `config.json` files: one small adapter a family, sharing what is common."""
