package main

// #include <stdlib.h>
import "C"

// Memory of C's beside Go's.
func init() { C.free(C.malloc(1 << 20)) }
