"""A random forest in scikit-learn, made by two threads."""
import numpy
from sklearn.ensemble import RandomForestClassifier

points = numpy.random.default_rng(1).random((30000, 20))
above = points[:, 0] + points[:, 1] * points[:, 2] > 0.8
forest = RandomForestClassifier(10, n_jobs=2, random_state=1).fit(points, above)
print(forest.predict(points).sum(), sum(tree.tree_.node_count for tree in forest.estimators_))
