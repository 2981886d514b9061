#include "blockdev/daemon/worker.h"

#include "blockdev/capacity.h"
#include "blockdev/daemon/device_metrics.h"
#include "blockdev/daemon/health.h"
#include "blockdev/daemon/service.h"
#include "blockdev/daemon/status.h"
#include "blockdev/host/group.h"
#include "blockdev/host/relief.h"
#include "blockdev/host/safety.h"
#include "blockdev/host/use.h"
#include "blockdev/host/watermarks.h"
#include "client/far.h"
#include "common/clock.h"
#include "common/daemon_log.h"
#include "common/events.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define TELL_NS UINT64_C(10000000000) /* least time between two lines about failed requests */

struct served {
	const struct worker *worker;
	struct store *store;
	struct disk *disk;
	struct frontend *frontend;
	struct frontend_device device;
	int node;                   /* from use_watch() */
	uint64_t errors_told, told; /* number of errors at the last line about them, and the time of that line */
	struct relief relief;
	struct health_told health;
	struct device_metrics *metrics; /* NULL without --metrics */
	int public;                     /* from runtime_public() */
};

bool worker_can_adopt(const struct frontend_ops *ops, const struct settings *settings)
{
	return ops->adopts && !settings->memory;
}

/* --- The store ------------------------------------------------------------------------------------------- */

/* The texts of a store's configuration. */
struct far_texts {
	char state[RUNTIME_PATH_MAX + 16];
	char command[RUNTIME_NAME_MAX + sizeof "blockdev "];
};

static struct far_config far_config_of(const struct settings *settings, const struct runtime *runtime,
				       struct far_texts *ret_texts)
{
	struct far_config config = {
	    .donors = settings->donors.items,
	    .donor_count = settings->donors.count,
	    .donors_file = settings->donors_file,
	    .key = settings->key_file ? settings->key : NULL,
	    .pages = settings->size / STORE_PAGE,
	    .replicas = settings->replicas,
	    .rebuild_rate = settings->rebuild_rate,
	    .scrub_rate = settings->scrub_rate,
	    .encrypt = settings->encrypt,
	    .backup = settings->backup,
	    .grace_ms = settings->grace_s * 1000,
	    .timeout_ms = settings->timeout_ms,
	    .state_file = ret_texts->state,
	    .user = settings->user,
	    .command = ret_texts->command,
	    .fabric = FABRIC_CONFIG_DEFAULT,
	};

	config.fabric.io_ms = 0; /* the store chooses the timeout of one request */
	config.fabric.spin_us = safety_spin_us(settings->spin_us, settings->swap);
	runtime_path(runtime->name, "state", ret_texts->state);
	snprintf(ret_texts->command, sizeof ret_texts->command, "blockdev %s", runtime->name);
	return config;
}

static int state_make(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0) {
		log_error("cannot make %s: %m", path);
		return -errno;
	}
	close(fd);
	return 0;
}

static int store_start(struct served *served)
{
	const struct worker *worker = served->worker;
	const struct settings *settings = worker->settings;
	struct far_config config;
	struct far_texts texts;
	int status;

	if (settings->memory) {
		status = store_open_memory(settings->size / STORE_PAGE, &served->store);
		if (status < 0)
			log_error("no memory for a device of that size: %s", strerror(-status));
		return status;
	}
	config = far_config_of(settings, worker->runtime, &texts);
	if (!worker_can_adopt(worker->ops, settings)) {
		config.state_file = NULL;
		config.grace_ms = 0; /* no later daemon will claim the leases */
	} else if (!worker->adopt && (status = state_make(texts.state)) < 0) {
		return status;
	}
	status = far_open(&config, &served->store);
	if (status < 0)
		return status;
	if (!worker->adopt && !settings->overcommit)
		status = capacity_check(served->store, settings->size, settings->replicas);
	if (status < 0)
		store_close(served->store);
	return status;
}

void worker_release(const struct settings *settings, const struct runtime *runtime)
{
	struct far_texts texts;
	struct far_config config = far_config_of(settings, runtime, &texts);
	uint8_t key[AUTH_KEY_SIZE];
	struct store *store;
	int status = 0;

	if (settings->memory || access(texts.state, R_OK) < 0)
		return;
	/* --remove works without the key file, so the key was not read before. */
	if (settings->key_file) {
		status = auth_key_load_or_tell(settings->key_file, key);
		config.key = key;
	}
	if (status == 0)
		status = far_open(&config, &store);
	explicit_bzero(key, sizeof key);
	if (status == 0)
		store_close(store);
	else
		log_warning("what is leased of the donors comes back by itself, in %u s at most", settings->grace_s);
}

/* --- The device ------------------------------------------------------------------------------------------ */

static int device_record(const struct worker *worker, const struct frontend_device *device)
{
	struct runtime_device record = {.device = *device};

	snprintf(record.frontend, sizeof record.frontend, "%s", worker->ops->name);
	return runtime_write_device(worker->runtime, &record);
}

/* Records the device, so that another process can remove the device if this process dies. Ignores errors, because
   frontend_begin() records the device again and reports errors. */
static void device_made(void *user, const struct frontend_device *device)
{
	const struct served *served = user;

	device_record(served->worker, device);
}

static int frontend_begin(struct served *served)
{
	const struct worker *worker = served->worker;
	char folder[RUNTIME_PATH_MAX + 16];
	const struct frontend_config config = {
	    .name = worker->settings->name,
	    .folder = folder,
	    .queues = worker->settings->queues,
	    .depth = worker->settings->depth,
	    .spin_us = safety_spin_us(worker->settings->spin_us, worker->settings->swap),
	    .number = worker->number,
	    .made = device_made,
	    .user = served,
	};
	int status;

	runtime_path(worker->runtime->name, "frontend", folder);
	if (worker->adopt)
		status = worker->ops->adopt(&config, served->disk, &served->frontend);
	else
		status = worker->ops->start(&config, served->disk, &served->frontend);
	if (status < 0) {
		if (!worker->adopt)
			runtime_unlink(worker->runtime, "device"); /* its number may already belong to another device */
		return status;
	}
	worker->ops->device(served->frontend, &served->device);
	served->node = use_watch(served->device.path);
	status = device_record(worker, &served->device);
	if (status < 0) {
		log_error("cannot write %s/device: %s", worker->runtime->folder, strerror(-status));
		/* The caller closes the disk next, so the front end's queues must be closed. Both leave() and remove()
		   close them. */
		if (worker->adopt)
			worker->ops->leave(served->frontend);
		else
			worker->ops->remove(served->frontend);
	}
	return status;
}

static double ms_since(uint64_t then)
{
	return (double)(clock_now() - then) / 1e6;
}

static int served_open(struct served *served)
{
	uint64_t begun = clock_now(), opened;
	int status = store_start(served);

	if (status < 0)
		return status;
	opened = clock_now();
	status = disk_open(served->store, served->worker->settings->size, &served->disk);
	if (status < 0) {
		log_error("no memory for the device: %s", strerror(-status));
		goto close_store;
	}
	if (served->metrics)
		status = disk_measure_times(served->disk);
	if (status == 0)
		status = frontend_begin(served);
	if (status < 0)
		goto close_disk;
	log_debug("the store was opened in %.1f ms, the device %s in %.1f ms", (double)(opened - begun) / 1e6,
		  served->worker->adopt ? "adopted" : "made", ms_since(opened));
	return 0;

close_disk:
	disk_close(served->disk);
close_store:
	/* An adopted device keeps its leases, for the next attempt. */
	if (served->worker->adopt)
		far_leave(served->store);
	else
		store_close(served->store);
	return status;
}

/* --- The service ----------------------------------------------------------------------------------------- */

static struct status status_of(const struct served *served)
{
	const struct worker *worker = served->worker;

	return (struct status){
	    .settings = worker->settings,
	    .frontend = worker->ops,
	    .device = served->device,
	    .store = served->store,
	    .disk = served->disk,
	    .uptime_s = (clock_now() - worker->started) / 1000000000,
	    .restarts = worker->restarts,
	};
}

static void served_publish(const struct served *served)
{
	/* too large for the stack; only the main thread uses it */
	static char text[CONTROL_REPLY_MAX];
	const struct status status = status_of(served);

	status_write(&status, text, sizeof text);
	runtime_publish(served->public, text);
	if (served->metrics)
		device_metrics_publish(served->metrics, &status);
}

static void served_status(void *user, char *ret_text, size_t size)
{
	const struct status status = status_of(user);

	status_write(&status, ret_text, size);
}

static int served_detach(void *user, char *ret_why, size_t size)
{
	struct served *served = user;
	int status = use_is_taken(served->node) ? -EBUSY : served->worker->ops->remove(served->frontend);

	if (status == -EBUSY)
		snprintf(ret_why, size, "%s is in use; swap it off or unmount it first", served->device.path);
	else if (status < 0)
		snprintf(ret_why, size, "%s cannot be removed: %s", served->device.path, strerror(-status));
	return status;
}

static int served_leave(void *user, char *ret_why, size_t size)
{
	struct served *served = user;
	const struct worker *worker = served->worker;

	if (!worker_can_adopt(worker->ops, worker->settings)) {
		snprintf(ret_why, size, "%s cannot be handed over: %s", served->device.path,
			 worker->ops->adopts ? "it serves this process's own memory (--memory)"
					     : "a device by FUSE ends with its daemon");
		return -EOPNOTSUPP;
	}
	worker->ops->leave(served->frontend);
	return 0;
}

static void served_health(struct served *served, uint64_t now)
{
	const struct settings *settings = served->worker->settings;
	struct health_sight sight;
	char why[HEALTH_WHY_MAX];
	enum health health;

	if (settings->memory)
		return;
	sight = health_look(served->store, settings->backup);
	health = health_judge(&sight, why);
	health_tell(&served->health, served->device.path, health, why, now);
}

/* Called once a second. Failed requests are logged here, because the path of a request does not log. */
static void served_tick(void *user)
{
	struct served *served = user;
	struct disk_stats disk;
	struct store_stats store;
	uint64_t errors = 0, done = 0, now = clock_now();

	disk_get_stats(served->disk, &disk);
	for (unsigned i = 0; i < DISK_OPS; i++) {
		errors += disk.errors[i];
		done += disk.requests[i];
	}
	relief_tick(&served->relief, now, done);
	served_health(served, now);
	served_publish(served);
	if (errors == served->errors_told || (served->told && now - served->told < TELL_NS))
		return;
	store_stats(served->store, &store);
	log_event(
	    LOG_LEVEL_ERROR, LOG_FIELDS(.id = EVENT_REQUESTS_FAILED, .device = served->device.path),
	    "%s: %llu requests failed; in all: reads %llu, writes %llu; donors have %llu MiB left, %llu pages are "
	    "lost",
	    served->device.path, (unsigned long long)(errors - served->errors_told),
	    (unsigned long long)disk.errors[DISK_READ], (unsigned long long)disk.errors[DISK_WRITE],
	    (unsigned long long)(store.bytes_available >> 20), (unsigned long long)store.lost_pages);
	served->errors_told = errors;
	served->told = now;
}

/* From this call on, the worker logs to the log file, because the process that started the daemon no longer reads the
   log. */
static void log_move(const struct settings *settings)
{
	int fd = open(settings->log_file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);

	if (fd < 0)
		fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	dup2(fd, STDERR_FILENO);
	close(fd);
	daemon_log_stamp(true);
}

static void served_tell(const struct served *served)
{
	const struct worker *worker = served->worker;

	if (worker->restarts)
		log_warning("%s is served again", served->device.path);
	else
		safety_tell();
	if (*worker->note)
		log_warning("serving by %s", worker->note);
	if (worker->settings->ready_fd && !worker->restarts)
		log_move(worker->settings);
	safety_log();
	if (write(worker->report, served->device.path, strlen(served->device.path) + 1) < 0)
		log_warning("the keeper is not told that %s is ready: %m", served->device.path);
}

static void abandoned_tell(const struct served *served)
{
	const struct worker *worker = served->worker;

	if (getppid() == worker->keeper)
		log_warning(
		    "%s: the caller that told its daemon to leave has given up: another process serves the device",
		    served->device.path);
	else
		log_error("%s is not served: the caller that told its daemon to leave has given up; run: farpage disk "
			  "adopt %s",
			  served->device.path, worker->runtime->name);
}

static enum worker_end served_end(struct served *served, enum service_end end)
{
	const struct worker *worker = served->worker;

	device_metrics_close(served->metrics);
	if (served->public >= 0)
		close(served->public);
	disk_close(served->disk);
	if (end != SERVICE_DETACHED) {
		far_leave(served->store);
		if (end == SERVICE_LEFT)
			return WORKER_LEFT;
		abandoned_tell(served);
		return WORKER_ABANDONED;
	}
	store_close(served->store);
	if (getppid() != worker->keeper) {
		watermarks_restore(worker->runtime);
		group_leave(worker->runtime->name);
		runtime_remove(worker->runtime);
	}
	return WORKER_DETACHED;
}

static int signals_open(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		log_error("cannot wait for signals: %m");
	return fd;
}

enum worker_end worker_run(const struct worker *worker)
{
	struct served served = {.worker = worker};
	struct service service = {
	    .control = worker->control,
	    .signals = signals_open(),
	    .keeper = worker->report,
	    .user = &served,
	    .status = served_status,
	    .detach = served_detach,
	    .leave = served_leave,
	    .tick = served_tick,
	};
	uint64_t begun;

	if (service.signals < 0)
		return WORKER_FAILED;
	begun = clock_now();
	safety_start(worker->settings->swap);
	log_debug("memory was locked in %.1f ms", ms_since(begun));
	/* An existing device is served even if another process uses the port for metrics now. */
	if (worker->settings->metrics && device_metrics_open(worker->settings->metrics, &served.metrics) < 0 &&
	    !worker->adopt)
		return WORKER_FAILED;
	if (served_open(&served) < 0) {
		device_metrics_close(served.metrics);
		return WORKER_FAILED;
	}
	served.public = runtime_public(worker->runtime);
	relief_open(&served.relief, worker->runtime->name, served.device.path);
	begun = clock_now();
	safety_settle();
	log_debug("memory was touched in %.1f ms", ms_since(begun));
	served_publish(&served);
	served_tell(&served);
	return served_end(&served, service_run(&service));
}
