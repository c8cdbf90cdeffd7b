"""What a user describes: chips, models, number formats, plans, deployments. Facts, validated at the door."""
