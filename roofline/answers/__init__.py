"""What people ask, answered from count and clock."""
