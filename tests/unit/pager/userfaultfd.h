/* userfaultfd: tells if this process may open a userfaultfd. */
#ifndef TESTS_USERFAULTFD_H
#define TESTS_USERFAULTFD_H

#include <errno.h>
#include <stdbool.h>

/* Returns true if @result says that this process may not open a userfaultfd. @result is from uffd_open(), or from a
   function that calls it. */
__attribute__((unused)) static bool userfaultfd_is_denied(int result)
{
	return result == -EPERM || result == -ENOSYS;
}

#endif
