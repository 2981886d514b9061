/* wrap_ioctl: hands each ioctl(2) of the program to ioctl_call(), which a test defines. Link with -Wl,--wrap=ioctl. */
#ifndef TESTS_WRAP_IOCTL_H
#define TESTS_WRAP_IOCTL_H

#include <stdarg.h>

int ioctl_call(int fd, unsigned long request, void *argument);

int __real_ioctl(int fd, unsigned long request, void *argument);
int __wrap_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...)
{
	va_list arguments;

	va_start(arguments, request);
	void *argument = va_arg(arguments, void *);
	va_end(arguments);
	return ioctl_call(fd, request, argument);
}

#endif
