"""How long counted work takes on a machine: no model in sight."""
