/*
 * vma: asks the kernel about the mapping at an address of this process. Uses the ioctl PROCMAP_QUERY of
 * /proc/self/maps (Linux 6.11), or reads that file on older kernels (Documentation/filesystems/proc.rst). Calls
 * neither malloc nor stdio, because it runs inside the preload library.
 */
#ifndef PAGER_VMA_H
#define PAGER_VMA_H

#include <stdbool.h>
#include <stdint.h>

struct vma {
	uintptr_t end;  /* first address after the mapping */
	int protection; /* PROT_READ, PROT_WRITE, PROT_EXEC */
	bool shared;
};

/* Returns a descriptor for vma_query(), or -errno. Close it with close(2). */
int vma_open(void);
/* Describes the mapping at @address. Returns 0, -ENOENT if nothing is mapped there, or -errno of ioctl(2). Any
   thread. */
int vma_query(int fd, const void *address, struct vma *ret_vma);

#endif
