"""Arrays of numpy, and a solver of scipy."""
import numpy
import scipy.linalg

ramp = numpy.arange(6_000_000, dtype=numpy.float64)
print(ramp.sum(), (ramp * 2 - 1)[::1000].sum(), numpy.sort(ramp[::-1])[:5])
matrix = numpy.array([[1 / (row + column + 1) + (row == column) for column in range(300)] for row in range(300)])
print(round(float(scipy.linalg.inv(matrix).trace()), 6))
