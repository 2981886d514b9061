from lib.tap import * # pylint: disable=wildcard-import,unused-wildcard-import
