"""Predictors: networks and boosted trees behind one interface."""
