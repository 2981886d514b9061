#include "blockdev/daemon/keeper.h"

#include "blockdev/daemon/control.h"
#include "blockdev/daemon/runtime.h"
#include "blockdev/daemon/worker.h"
#include "blockdev/frontends.h"
#include "blockdev/host/group.h"
#include "blockdev/host/safety.h"
#include "blockdev/host/use.h"
#include "blockdev/host/watermarks.h"
#include "client/page/seal.h"
#include "common/clock.h"
#include "common/daemon_log.h"
#include "common/events.h"
#include "common/log.h"
#include "common/metrics_http.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#define TAKE_OVER_MS 10000             /* how long a daemon may take to end, after its requests are answered */
#define QUICK_NS UINT64_C(10000000000) /* a worker that dies after a shorter time of service died quickly */
#define QUICK_MAX 5                    /* the keeper ends after more quick deaths in a row than this */
#define PAUSE_MS 100                   /* pause before the second restart in a row; then doubled each time */

struct keeper {
	const struct settings *settings;
	struct runtime runtime;
	struct runtime_device device; /* valid when the device exists */
	struct worker worker;
	char note[FRONTENDS_NOTE_MAX];
	pid_t pid;  /* the worker's */
	int report; /* read end of the pipe on which the worker reports the ready device, or -1 */
	int signals;
	bool ready;     /* some worker has reported ready */
	bool serving;   /* the present worker is ready */
	uint64_t since; /* when the worker was started or, later, became ready */
	unsigned quick; /* quick deaths in a row */
};

/* Removes the folder, and undoes the changes to the kernel's reserves and control groups. */
static void folder_remove(struct keeper *keeper)
{
	watermarks_restore(&keeper->runtime);
	group_leave(keeper->runtime.name);
	runtime_remove(&keeper->runtime);
}

/* --- Workers --------------------------------------------------------------------------------------------- */

static int worker_start(struct keeper *keeper)
{
	int report[2];

	if (pipe2(report, O_CLOEXEC) < 0) {
		log_error("cannot start: %m");
		return -errno;
	}
	keeper->worker.report = report[1];
	keeper->since = clock_now();
	keeper->serving = false;
	keeper->pid = fork();
	if (keeper->pid == 0) {
		close(report[0]);
		close(keeper->signals);
		if (keeper->settings->ready_fd && !keeper->ready) /* only the keeper writes to it */
			close((int)keeper->settings->ready_fd);
		_exit(worker_run(&keeper->worker));
	}
	close(report[1]);
	if (keeper->pid < 0) {
		log_error("cannot start a worker: %m");
		close(report[0]);
		return -errno;
	}
	keeper->report = report[0];
	return 0;
}

/* Reports the device's path to the process that started the daemon. If that process has ended, nobody wants the device,
   so the keeper ends the worker. But an adopted device is served nevertheless, because it has contents. */
static void ready_tell(struct keeper *keeper, const char *path)
{
	char line[FRONTEND_PATH_MAX + 1];
	int fd = (int)keeper->settings->ready_fd, length;

	sd_notifyf(0, "READY=1\nSTATUS=serving %s", path);
	if (!fd) {
		safety_log();
		return;
	}
	length = snprintf(line, sizeof line, "%s\n", path);
	if (write(fd, line, (size_t)length) != length && !keeper->worker.adopt)
		kill(keeper->pid, SIGTERM);
	close(fd);
	fd = open(keeper->settings->log_file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
	if (fd < 0)
		fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	dup2(fd, STDERR_FILENO);
	close(fd);
	daemon_log_stamp(true);
	safety_log();
}

static void report_take(struct keeper *keeper)
{
	char path[FRONTEND_PATH_MAX];
	ssize_t got = read(keeper->report, path, sizeof path);

	if (got <= 0) { /* the worker is about to end; SIGCHLD follows */
		close(keeper->report);
		keeper->report = -1;
		return;
	}
	path[got - 1] = 0;
	keeper->serving = true;
	keeper->since = clock_now();
	runtime_read_device(keeper->runtime.name, &keeper->device);
	if (!keeper->ready)
		ready_tell(keeper, path);
	keeper->ready = true;
}

static const char *death_text(int status, char text[48])
{
	if (WIFSIGNALED(status))
		snprintf(text, 48, "was killed by signal %d", WTERMSIG(status));
	else
		snprintf(text, 48, "ended with status %d", WEXITSTATUS(status));
	return text;
}

static int device_clear(struct keeper *keeper)
{
	char use[USE_TEXT_MAX];
	struct runtime_device device;
	int status = 0;

	if (runtime_read_device(keeper->runtime.name, &device) == 0)
		status = keeper->worker.ops->clear(device.device.number);
	if (status == 0 || status == -ENOENT) {
		folder_remove(keeper);
		return 0;
	}
	if (!use_find(device.device.path, use))
		snprintf(use, sizeof use, "%s", strerror(-status));
	log_error("%s cannot be removed (%s): end that, then run: farpage disk detach %s", device.device.path, use,
		  keeper->runtime.name);
	runtime_leave(&keeper->runtime);
	return status;
}

static int lost(struct keeper *keeper)
{
	log_event(LOG_LEVEL_ERROR, LOG_FIELDS(.id = EVENT_DATA_LOST, .device = keeper->device.device.path),
		  "%s and all that was in it is lost: a device by %s%s ends with its daemon",
		  keeper->device.device.path, keeper->worker.ops->name,
		  keeper->settings->memory ? " in its own memory" : "");
	device_clear(keeper);
	return -EIO;
}

static int given_up(struct keeper *keeper)
{
	log_error("%s: its daemon died %u times in a row: given up; run: farpage disk adopt %s",
		  keeper->device.device.path, keeper->quick, keeper->runtime.name);
	runtime_leave(&keeper->runtime);
	return -EIO;
}

/* Replaces a worker that has ended. Returns 0, or -errno if the daemon ends. */
static int worker_follow(struct keeper *keeper)
{
	struct timespec pause = {0};
	unsigned ms;

	if (!worker_can_adopt(keeper->worker.ops, keeper->settings))
		return lost(keeper);
	keeper->quick = keeper->serving && clock_now() - keeper->since > QUICK_NS ? 1 : keeper->quick + 1;
	if (keeper->quick > QUICK_MAX)
		return given_up(keeper);
	ms = keeper->quick > 1 ? PAUSE_MS << (keeper->quick - 2) : 0;
	pause.tv_sec = ms / 1000;
	pause.tv_nsec = ms % 1000 * 1000000L;
	nanosleep(&pause, NULL);
	keeper->worker.adopt = true;
	keeper->worker.number = keeper->device.device.number;
	keeper->worker.restarts++;
	keeper->worker.note = "";
	return worker_start(keeper);
}

/* Handles the end of a worker. Returns 1 if another worker was started, otherwise the daemon's result. */
static int worker_ended(struct keeper *keeper, int status)
{
	char text[48];

	if (keeper->report >= 0)
		close(keeper->report);
	keeper->report = -1;
	if (WIFEXITED(status) && WEXITSTATUS(status) == WORKER_DETACHED) {
		folder_remove(keeper);
		return 0;
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == WORKER_LEFT) {
		runtime_leave(&keeper->runtime);
		return 0;
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == WORKER_ABANDONED)
		keeper->quick = 0; /* it ended as planned */
	else if (!WIFEXITED(status) || WEXITSTATUS(status) != WORKER_FAILED)
		log_error("the process that serves %s %s", keeper->runtime.name, death_text(status, text));
	if (keeper->ready) {
		status = worker_follow(keeper);
		return status < 0 ? status : 1;
	}
	if (keeper->worker.adopt)
		runtime_leave(&keeper->runtime);
	else
		device_clear(keeper);
	return -EIO;
}

/* --- The loop -------------------------------------------------------------------------------------------- */

static int signals_open(struct keeper *keeper)
{
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	keeper->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (keeper->signals < 0) {
		log_error("cannot wait for signals: %m");
		return -errno;
	}
	return 0;
}

/* Handles a signal. Returns 1 if the daemon continues, otherwise the daemon's result. */
static int signal_take(struct keeper *keeper)
{
	struct signalfd_siginfo info;
	int status;

	if (read(keeper->signals, &info, sizeof info) != sizeof info)
		return 1;
	if (info.ssi_signo == SIGHUP) {
		log_warning("SIGHUP: there is nothing to read again, the device continues");
		return 1;
	}
	if (info.ssi_signo != SIGCHLD) {
		/* The worker decides, because it knows whether the device is in use. */
		kill(keeper->pid, (int)info.ssi_signo);
		return 1;
	}
	if (waitpid(keeper->pid, &status, WNOHANG) != keeper->pid)
		return 1;
	if (keeper->report >= 0 && !keeper->serving)
		report_take(keeper); /* the worker may have reported ready just before it ended */
	return worker_ended(keeper, status);
}

static int keeper_loop(struct keeper *keeper)
{
	int status = 1;

	while (status > 0) {
		struct pollfd polled[] = {
		    {.fd = keeper->signals, .events = POLLIN},
		    {.fd = keeper->report, .events = POLLIN},
		};

		if (poll(polled, 2, -1) < 0 && errno != EINTR) {
			log_error("cannot wait for the worker: %m");
			return -errno;
		}
		if (polled[1].revents)
			report_take(keeper);
		if (polled[0].revents)
			status = signal_take(keeper);
	}
	return status;
}

/* --- Attach, adopt, remove ------------------------------------------------------------------------------- */

static int options_keep(const struct keeper *keeper)
{
	static char text[RUNTIME_OPTIONS_MAX];
	size_t length = settings_write(keeper->settings, text, sizeof text);
	int status = runtime_write(&keeper->runtime, "options", text, length);

	if (status < 0)
		log_error("cannot write %s/options: %s", keeper->runtime.folder, strerror(-status));
	return status;
}

/* Prepares the machine before there is a device to swap to. If a step fails, the daemon serves without this step. */
static void machine_prepare(const struct keeper *keeper)
{
	const struct settings *settings = keeper->settings;
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
	struct watermarks needed =
	    watermarks_needed((uint64_t)pages * (uint64_t)size / 1024,
			      frontends_flight_kib(keeper->worker.ops, settings->queues, settings->depth));

	if (!keeper->worker.adopt) /* an adopted device already has a record */
		watermarks_raise(&keeper->runtime, &needed);
	if (settings->ready_fd) /* otherwise the daemon is a systemd unit, or must stay in the caller's group */
		group_enter(settings->name);
}

static int keeper_serve(struct keeper *keeper)
{
	char path[RUNTIME_PATH_MAX + 16];
	int status = options_keep(keeper);

	/* The keeper loads libcrypto, so that workers inherit it, locked in memory. A worker that adopts swap space
	   must not have to read libcrypto from a disk. */
	if (!status && keeper->settings->encrypt && !keeper->settings->memory)
		status = seal_load();
	/* An existing device is served even without metrics. */
	if (!status && keeper->settings->metrics && metrics_http_load() < 0 && !keeper->worker.adopt)
		status = -ELIBACC;
	if (status < 0)
		return status;
	runtime_path(keeper->runtime.name, "control", path);
	status = control_listen(path, &keeper->worker.control);
	if (status < 0) {
		log_error("cannot listen on %s: %s", path, strerror(-status));
		return status;
	}
	keeper->worker.settings = keeper->settings;
	keeper->worker.runtime = &keeper->runtime;
	keeper->worker.note = keeper->note;
	keeper->worker.keeper = getpid();
	keeper->worker.started = clock_now();
	if (keeper->settings->swap && !keeper->settings->keep_vm)
		machine_prepare(keeper);
	safety_start(keeper->settings->swap); /* the worker logs refused steps */
	return worker_start(keeper);
}

static int keeper_attach(struct keeper *keeper)
{
	int status = frontends_choose(keeper->settings->frontend, &keeper->worker.ops, keeper->note);

	if (!status)
		status = runtime_create(keeper->settings->name, &keeper->runtime);
	if (status < 0)
		return status;
	status = keeper_serve(keeper);
	if (status < 0) {
		folder_remove(keeper);
		return status;
	}
	return keeper_loop(keeper);
}

static int device_read(struct keeper *keeper)
{
	int status = runtime_read_device(keeper->runtime.name, &keeper->device);

	if (status < 0)
		return status;
	keeper->worker.ops = frontends_find(keeper->device.frontend);
	return keeper->worker.ops ? 0 : -ENOENT;
}

static int keeper_adopt(struct keeper *keeper)
{
	int status = runtime_adopt(keeper->settings->name, settings_timeout_ms(keeper->settings) + TAKE_OVER_MS,
				   &keeper->runtime);

	if (status < 0)
		return status;
	status = device_read(keeper);
	if (status < 0 || !worker_can_adopt(keeper->worker.ops, keeper->settings)) {
		log_error("%s cannot be adopted: %s; run: farpage disk detach %s", keeper->settings->name,
			  status < 0 ? "its daemon died before there was a device"
				     : "its contents were lost with its daemon",
			  keeper->settings->name);
		runtime_leave(&keeper->runtime);
		return -ENODEV;
	}
	keeper->worker.adopt = true;
	keeper->worker.number = keeper->device.device.number;
	status = keeper_serve(keeper);
	if (status < 0) {
		runtime_leave(&keeper->runtime);
		return status;
	}
	return keeper_loop(keeper);
}

static int keeper_remove(struct keeper *keeper)
{
	char use[USE_TEXT_MAX];
	int status = runtime_adopt(keeper->settings->name, 0, &keeper->runtime);

	if (status < 0)
		return status;
	if (device_read(keeper) < 0) {
		folder_remove(keeper);
		return 0;
	}
	/* clear() would need the device's file, which may be missing. */
	if (access(keeper->device.device.path, F_OK) < 0 && use_find(keeper->device.device.path, use))
		status = -EBUSY;
	else
		status = keeper->worker.ops->clear(keeper->device.device.number);
	if (status < 0 && status != -ENOENT) {
		if (!use_find(keeper->device.device.path, use))
			snprintf(use, sizeof use, "%s", strerror(-status));
		log_error("%s is in use: %s; end that first", keeper->device.device.path, use);
		runtime_leave(&keeper->runtime);
		return status;
	}
	if (worker_can_adopt(keeper->worker.ops, keeper->settings))
		worker_release(keeper->settings, &keeper->runtime);
	folder_remove(keeper);
	return 0;
}

int keeper_run(const struct settings *settings)
{
	static struct keeper keeper;
	int status;

	keeper = (struct keeper){.settings = settings, .report = -1};
	if (geteuid() != 0) {
		log_error("only root can make block devices: run it with sudo");
		return -EPERM;
	}
	if (settings->remove)
		return keeper_remove(&keeper);
	status = signals_open(&keeper);
	if (status < 0)
		return status;
	return settings->adopt ? keeper_adopt(&keeper) : keeper_attach(&keeper);
}
