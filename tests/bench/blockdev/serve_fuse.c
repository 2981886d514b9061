/*
 * serve_fuse: the FUSE front end over the store in local memory, for the benchmark and for tests by hand.
 *
 *     serve_fuse FOLDER BYTES [SPIN_US [QUEUES [DEPTH [REQUEST_BYTES]]]]
 *
 * Prints the paths of the block device and of the file under it. Serves until its standard input ends, then removes
 * both.
 */
#include "blockdev/frontend.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME "memory"

static unsigned long number(int argc, char **argv, int which)
{
	return argc > which ? strtoul(argv[which], NULL, 0) : 0;
}

int main(int argc, char **argv)
{
	struct frontend_config config = {.name = NAME,
					 .spin_us = (unsigned)number(argc, argv, 3),
					 .queues = (unsigned)number(argc, argv, 4),
					 .depth = (unsigned)number(argc, argv, 5),
					 .request_bytes = (uint32_t)number(argc, argv, 6)};
	uint64_t bytes = number(argc, argv, 2) / STORE_PAGE * STORE_PAGE;
	struct frontend_device device;
	struct frontend *frontend;
	struct store *store;
	struct disk *disk;
	char rest[64];
	int status;

	if (argc < 3) {
		fprintf(stderr, "usage: serve_fuse FOLDER BYTES [SPIN_US [QUEUES [DEPTH [REQUEST_BYTES]]]]\n");
		return 2;
	}
	config.folder = argv[1];
	if (store_open_memory(bytes / STORE_PAGE, &store) < 0 || disk_open(store, bytes, &disk) < 0) {
		fprintf(stderr, "serve_fuse: %s is not a size that there is memory for\n", argv[2]);
		return EXIT_FAILURE;
	}
	status = frontend_fuse.start(&config, disk, &frontend);
	if (status < 0)
		return EXIT_FAILURE;
	frontend_fuse.device(frontend, &device);
	printf("%s %s/fuse\n", device.path, config.folder);
	fflush(stdout);
	while (read(STDIN_FILENO, rest, sizeof rest) > 0)
		;
	while ((status = frontend_fuse.remove(frontend)) == -EBUSY)
		usleep(1000);
	disk_close(disk);
	store_close(store);
	return status < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
