"""From measurements to efficiencies: counted costs, priors, fits, folds, and the file that ships."""
