// The page of a model card: intervals in its verdicts.

drawIntervals();
