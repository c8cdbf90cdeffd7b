"""What a pass must do: pure counting, no hardware."""
