"""Makes a raster in memory, and warps it."""
import numpy
from osgeo import gdal

SIDE = 2400
raster = gdal.GetDriverByName("MEM").Create("", SIDE, SIDE, 1, gdal.GDT_Float32)
heights = numpy.add.outer(numpy.arange(SIDE), numpy.arange(SIDE)).astype(numpy.float32)
heights[::7, ::5] += 50
raster.GetRasterBand(1).WriteArray(heights)
raster.SetGeoTransform([0, 1, 0, 0, 0, -1])
warped = gdal.Warp("", raster, format="MEM", width=1800, height=1800, resampleAlg="cubic")
print(warped.GetRasterBand(1).Checksum())
