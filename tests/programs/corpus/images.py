"""Blurs a large image, and finds its edges and corners."""
import cv2
import numpy

image = numpy.random.RandomState(16).randint(0, 255, (2400, 2400, 3), dtype=numpy.uint8)
blurred = cv2.GaussianBlur(image, (9, 9), 2)
edges = cv2.Canny(blurred, 50, 100)
small = cv2.resize(blurred, (1200, 1200))
print(edges.sum(), small.sum(), len(cv2.ORB_create(1000).detect(small, None)))
