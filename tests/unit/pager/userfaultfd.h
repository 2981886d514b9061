/* userfaultfd: tells if this process may open a userfaultfd. */
#ifndef TESTS_USERFAULTFD_H
#define TESTS_USERFAULTFD_H

#include <errno.h>
#include <stdbool.h>

/* Returns true if @result, of uffd_open() or of a function over it, says that this process gets no userfaultfd. */
__attribute__((unused)) static bool userfaultfd_is_denied(int result)
{
	return result == -EPERM || result == -ENOSYS;
}

#endif
