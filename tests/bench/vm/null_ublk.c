/*
 * null_ublk SIZE: the smallest ublk server. It answers every request at once and touches no data. So its cost is the
 * cost of ublk. It has a queue of 64 tags for each processor, up to 4 queues. Each queue has a thread that sleeps in
 * its ring. Requests have up to 128 KiB. It prints the path of the device, serves it until SIGTERM or SIGINT, and
 * removes it.
 */
#include "blockdev/ublk/ublk_control.h"
#include "blockdev/ublk/ublk_device.h"
#include "common/log.h"
#include "common/size.h"

#include <errno.h>
#include <liburing.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define QUEUES_MAX 4
#define DEPTH 64
#define REQUEST_BYTES (128u << 10)
#define DESCRIPTORS_BYTES 4096 /* size of DEPTH descriptors, in whole pages */
#define PAGE_SHIFT 12
#define SECTOR 512

struct queue {
	pthread_t thread;
	unsigned index;
	int fd;
	bool legacy;
	const volatile struct ublk_descriptor *descriptors;
	char *data;
	struct io_uring ring;
};

static void die(const char *what, int status)
{
	fprintf(stderr, "null_ublk: %s: %s\n", what, strerror(-status));
	exit(1);
}

static void tag_command(struct queue *queue, unsigned tag, enum ublk_io_operation operation, int32_t result)
{
	struct io_uring_sqe *submission = io_uring_get_sqe(&queue->ring);
	struct ublk_io_command command = {.queue = (uint16_t)queue->index,
					  .tag = (uint16_t)tag,
					  .result = result,
					  .address = (uintptr_t)queue->data + (size_t)tag * REQUEST_BYTES};

	io_uring_prep_rw(IORING_OP_URING_CMD, submission, 0, NULL, 0, 0);
	submission->flags = IOSQE_FIXED_FILE;
	submission->cmd_op = queue->legacy ? (uint32_t)operation : (uint32_t)UBLK_ENCODED_IO(operation);
	submission->user_data = tag;
	memcpy((char *)submission + offsetof(struct io_uring_sqe, cmd), &command, sizeof command);
}

static int32_t descriptor_result(const volatile struct ublk_descriptor *descriptor)
{
	unsigned operation = descriptor->operation_flags & 0xff;

	return operation == UBLK_READ || operation == UBLK_WRITE ? (int32_t)(descriptor->sectors * SECTOR) : 0;
}

static int queue_open(struct queue *queue)
{
	void *descriptors = mmap(NULL, DESCRIPTORS_BYTES, PROT_READ, MAP_SHARED | MAP_POPULATE, queue->fd,
				 (off_t)(queue->index * UBLK_DESCRIPTORS_STRIDE));
	int status;

	if (descriptors == MAP_FAILED)
		return -errno;
	queue->descriptors = descriptors;
	status = io_uring_queue_init(
	    DEPTH, &queue->ring, IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SINGLE_ISSUER);
	if (status < 0)
		return status;
	io_uring_register_ring_fd(&queue->ring);
	return io_uring_register_files(&queue->ring, &queue->fd, 1);
}

static void *queue_run(void *argument)
{
	struct queue *queue = argument;
	unsigned head, live = DEPTH;
	int status = queue_open(queue);

	if (status < 0)
		die("a queue's ring", status);
	for (unsigned tag = 0; tag < DEPTH; tag++)
		tag_command(queue, tag, UBLK_FETCH, 0);
	while (live) {
		struct io_uring_cqe *completion;
		unsigned count = 0;

		status = io_uring_submit_and_wait(&queue->ring, 1);
		if (status < 0 && status != -EINTR)
			break;
		io_uring_for_each_cqe(&queue->ring, head, completion)
		{
			unsigned tag = (unsigned)completion->user_data;

			count++;
			if (completion->res == 0)
				tag_command(queue, tag, UBLK_COMMIT_AND_FETCH,
					    descriptor_result(&queue->descriptors[tag]));
			else
				live--;
		}
		io_uring_cq_advance(&queue->ring, count);
	}
	io_uring_queue_exit(&queue->ring);
	return NULL;
}

static void device_add(struct ublk_control *control, uint64_t bytes, struct ublk_info *ret_info)
{
	struct ublk_parameters parameters = {.types = UBLK_PARAMETERS_BASIC | UBLK_PARAMETERS_DISCARD,
					     .basic = {.logical_shift = PAGE_SHIFT,
						       .physical_shift = PAGE_SHIFT,
						       .optimal_shift = PAGE_SHIFT,
						       .minimum_shift = PAGE_SHIFT,
						       .max_sectors = REQUEST_BYTES / SECTOR,
						       .sectors = bytes / SECTOR},
					     .discard = {.granularity = 1u << PAGE_SHIFT,
							 .max_sectors = 1u << 21,
							 .max_zero_sectors = 1u << 21,
							 .max_segments = 1}};
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	int status;

	*ret_info = (struct ublk_info){.queues = (uint16_t)(processors < QUEUES_MAX ? processors : QUEUES_MAX),
				       .depth = DEPTH,
				       .request_bytes = REQUEST_BYTES};
	status = ublk_control_add(control, ret_info);
	if (status < 0)
		die("no device", status);
	status = ublk_control_set_parameters(control, ret_info->number, &parameters);
	if (status < 0) {
		ublk_control_delete(control, ret_info->number);
		die("its parameters", status);
	}
}

int main(int argc, char **argv)
{
	struct queue queues[QUEUES_MAX] = {0};
	struct ublk_control *control;
	struct ublk_info info;
	char why[UBLK_WHY_MAX], path[64];
	uint64_t bytes;
	sigset_t signals;
	int status, fd, which;

	if (argc != 2 || size_parse(argv[1], &bytes) < 0) {
		fprintf(stderr, "usage: null_ublk SIZE\n");
		return 2;
	}
	if (ublk_control_open(&control, why) < 0) {
		fprintf(stderr, "null_ublk: %s\n", why);
		return 1;
	}
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	device_add(control, bytes, &info);
	status = ublk_device_open(info.number, &fd);
	if (status < 0)
		die("/dev/ublkc", status);
	for (unsigned i = 0; i < info.queues; i++) {
		queues[i] = (struct queue){.index = i, .fd = fd, .legacy = ublk_control_is_legacy(control)};
		queues[i].data = mmap(NULL, DEPTH * REQUEST_BYTES, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		if (queues[i].data == MAP_FAILED || pthread_create(&queues[i].thread, NULL, queue_run, &queues[i]) != 0)
			die("a queue", -ENOMEM);
	}
	status = ublk_control_start(control, info.number);
	if (status == 0)
		status = ublk_device_wait(info.number);
	if (status == 0) {
		ublk_device_tune(info.number, DEPTH);
		ublk_device_path(info.number, path, sizeof path);
		printf("%s\n", path);
		fflush(stdout);
		sigwait(&signals, &which);
	}
	ublk_control_stop(control, info.number);
	for (unsigned i = 0; i < info.queues; i++)
		pthread_join(queues[i].thread, NULL);
	close(fd);
	ublk_control_delete(control, info.number);
	ublk_control_close(control);
	if (status < 0)
		die("the device does not start", status);
	return 0;
}
