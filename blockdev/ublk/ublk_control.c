#include "blockdev/ublk/ublk_control.h"

#include "blockdev/devices.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Timeout of most commands. */
#define QUICK_MS 5000
/* Timeout of START, which reads from the device, and of STOP and DELETE, which wait for requests or users. */
#define SLOW_MS 30000
#define ENTRIES 4

union memory {
	struct ublk_info info;
	struct ublk_parameters parameters;
	uint64_t features;
};

struct ublk_control {
	struct io_uring ring;
	int fd;
	bool legacy;
	uint64_t features;
	union memory *memory;
};

/* Returns the operation as the kernel expects it: GET operations are encoded as reads, all others as transfers in
   both directions. */
static uint32_t control_encode(const struct ublk_control *control, enum ublk_operation operation)
{
	if (control->legacy)
		return operation;
	switch (operation) {
	case UBLK_GET_INFO:
	case UBLK_GET_PARAMETERS:
	case UBLK_GET_FEATURES:
		return UBLK_ENCODED_READ(operation);
	default:
		return UBLK_ENCODED_BOTH(operation);
	}
}

/* Replaces the ring after a timeout. Closing the old ring cancels the command if the kernel still can. Abandons the old
   memory, because the command may still write to it. */
static void control_renew(struct ublk_control *control)
{
	union memory *memory = calloc(1, sizeof *memory);

	io_uring_queue_exit(&control->ring);
	if (memory && io_uring_queue_init(ENTRIES, &control->ring, IORING_SETUP_SQE128) < 0) {
		free(memory);
		memory = NULL;
	}
	control->memory = memory;
}

/* Performs a command with @length bytes of control->memory. Returns the command's result, or -ETIMEDOUT. */
static int control_command(struct ublk_control *control, enum ublk_operation operation, uint32_t number, size_t length,
			   uint64_t data, unsigned deadline_ms)
{
	struct __kernel_timespec timeout = {.tv_sec = deadline_ms / 1000, .tv_nsec = deadline_ms % 1000 * 1000000ll};
	struct ublk_command command = {.number = number,
				       .queue = UBLK_NO_QUEUE,
				       .length = (uint16_t)length,
				       .address = length ? (uintptr_t)control->memory : 0,
				       .data = data};
	struct io_uring_cqe *completion;
	struct io_uring_sqe *submission;
	int status;

	if (!control->memory)
		return -ETIMEDOUT;
	submission = io_uring_get_sqe(&control->ring);
	if (!submission)
		return -EBUSY;
	io_uring_prep_rw(IORING_OP_URING_CMD, submission, control->fd, NULL, 0, 0);
	submission->cmd_op = control_encode(control, operation);
	memcpy((char *)submission + offsetof(struct io_uring_sqe, cmd), &command, sizeof command);
	status = io_uring_submit(&control->ring);
	if (status < 0)
		return status;
	do
		status = io_uring_wait_cqe_timeout(&control->ring, &completion, &timeout);
	while (status == -EINTR);
	if (status < 0) {
		control_renew(control);
		return status == -ETIME ? -ETIMEDOUT : status;
	}
	status = completion->res;
	io_uring_cqe_seen(&control->ring, completion);
	return status;
}

/* --- Opening --------------------------------------------------------------------------------------------- */

static int explain_no_device(int status, char why[UBLK_WHY_MAX])
{
	switch (status) {
	case -ENOENT:
	case -ENXIO:
	case -ENODEV:
		if (access("/sys/module/ublk_drv", F_OK) == 0)
			snprintf(why, UBLK_WHY_MAX,
				 "ublk is loaded, but there is no " UBLK_CONTROL_PATH ": is /dev a devtmpfs, here?");
		else
			snprintf(why, UBLK_WHY_MAX,
				 "no " UBLK_CONTROL_PATH ": 'modprobe ublk_drv' loads it, if the "
				 "kernel (6.1 and up) was built with CONFIG_BLK_DEV_UBLK");
		break;
	case -EACCES:
	case -EPERM:
		snprintf(why, UBLK_WHY_MAX, "no right to use " UBLK_CONTROL_PATH ": ublk takes root");
		break;
	default:
		snprintf(why, UBLK_WHY_MAX, UBLK_CONTROL_PATH " cannot be opened: %s", strerror(-status));
	}
	return status;
}

static int explain_no_ring(int status, char why[UBLK_WHY_MAX])
{
	if (status == -EPERM || status == -ENOSYS)
		snprintf(why, UBLK_WHY_MAX,
			 "ublk needs io_uring, which is not allowed here: see 'sysctl kernel.io_uring_disabled' and "
			 "the seccomp profile of this process");
	else
		snprintf(why, UBLK_WHY_MAX, "ublk takes an io_uring of 128-byte entries (Linux 5.19 and up): %s",
			 strerror(-status));
	return status;
}

int ublk_control_open(struct ublk_control **ret_control, char ret_why[UBLK_WHY_MAX])
{
	struct ublk_control *control = calloc(1, sizeof *control);
	int status;

	if (control)
		control->memory = calloc(1, sizeof *control->memory);
	if (!control || !control->memory) {
		snprintf(ret_why, UBLK_WHY_MAX, "no memory");
		free(control);
		return -ENOMEM;
	}
	control->fd = open(UBLK_CONTROL_PATH, O_RDWR | O_CLOEXEC);
	if (control->fd < 0) {
		status = explain_no_device(-errno, ret_why);
		goto free_control;
	}
	status = io_uring_queue_init(ENTRIES, &control->ring, IORING_SETUP_SQE128);
	if (status < 0) {
		explain_no_ring(status, ret_why);
		goto close_device;
	}
	status = control_command(control, UBLK_GET_FEATURES, 0, sizeof control->memory->features, 0, QUICK_MS);
	if (status == -EPERM || status == -EACCES) {
		snprintf(ret_why, UBLK_WHY_MAX, "the kernel refuses ublk commands: %s; ublk takes root",
			 strerror(-status));
		goto close_ring;
	}
	if (status < 0)
		control->legacy = true;
	else
		control->features = control->memory->features;
	*ret_control = control;
	return 0;
close_ring:
	io_uring_queue_exit(&control->ring);
close_device:
	close(control->fd);
free_control:
	free(control->memory);
	free(control);
	return status;
}

void ublk_control_close(struct ublk_control *control)
{
	if (!control)
		return;
	if (control->memory)
		io_uring_queue_exit(&control->ring);
	free(control->memory);
	close(control->fd);
	free(control);
}

bool ublk_control_is_legacy(const struct ublk_control *control)
{
	return control->legacy;
}

uint64_t ublk_control_features(const struct ublk_control *control)
{
	return control->features;
}

/* --- Commands -------------------------------------------------------------------------------------------- */

int ublk_control_add(struct ublk_control *control, struct ublk_info *info)
{
	int status;

	control->memory->info = *info;
	control->memory->info.number = UBLK_ANY_NUMBER;
	status = control_command(control, UBLK_ADD, UBLK_ANY_NUMBER, sizeof *info, 0, QUICK_MS);
	if (status == 0)
		*info = control->memory->info;
	return status;
}

int ublk_control_set_parameters(struct ublk_control *control, uint32_t number, const struct ublk_parameters *parameters)
{
	control->memory->parameters = *parameters;
	control->memory->parameters.length = sizeof *parameters;
	return control_command(control, UBLK_SET_PARAMETERS, number, sizeof *parameters, 0, QUICK_MS);
}

int ublk_control_get_parameters(struct ublk_control *control, uint32_t number, struct ublk_parameters *ret_parameters)
{
	int status;

	control->memory->parameters = (struct ublk_parameters){.length = sizeof *ret_parameters};
	status = control_command(control, UBLK_GET_PARAMETERS, number, sizeof *ret_parameters, 0, QUICK_MS);
	if (status == 0)
		*ret_parameters = control->memory->parameters;
	return status;
}

int ublk_control_info(struct ublk_control *control, uint32_t number, struct ublk_info *ret_info)
{
	int status = control_command(control, UBLK_GET_INFO, number, sizeof *ret_info, 0, QUICK_MS);

	if (status == 0)
		*ret_info = control->memory->info;
	return status;
}

int ublk_control_start(struct ublk_control *control, uint32_t number)
{
	return control_command(control, UBLK_START, number, 0, (uint64_t)getpid(), SLOW_MS);
}

int ublk_control_stop(struct ublk_control *control, uint32_t number)
{
	return control_command(control, UBLK_STOP, number, 0, 0, SLOW_MS);
}

int ublk_control_delete(struct ublk_control *control, uint32_t number)
{
	return control_command(control, UBLK_DELETE, number, 0, 0, SLOW_MS);
}

int ublk_control_start_recovery(struct ublk_control *control, uint32_t number)
{
	return control_command(control, UBLK_START_RECOVERY, number, 0, 0, QUICK_MS);
}

int ublk_control_end_recovery(struct ublk_control *control, uint32_t number)
{
	return control_command(control, UBLK_END_RECOVERY, number, 0, (uint64_t)getpid(), QUICK_MS);
}

int ublk_control_recovers(void)
{
	char why[UBLK_WHY_MAX];
	struct ublk_control *control;
	int status = ublk_control_open(&control, why);
	uint64_t features;

	if (status < 0)
		return status;
	features = ublk_control_features(control);
	ublk_control_close(control);
	return features ? (features & UBLK_USER_RECOVERY) && (features & UBLK_USER_RECOVERY_REISSUE) : -ENODATA;
}
