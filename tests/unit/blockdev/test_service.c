/* Unit tests of blockdev/service and blockdev/control: a service in a thread of its own, called over its socket. */
#include "blockdev/daemon/control.h"
#include "blockdev/daemon/runtime.h"
#include "blockdev/daemon/service.h"
#include "common/log.h"
#include "tests/lib/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

struct fake {
	struct service service;
	atomic_bool busy;
	atomic_uint detaches, leaves;
	atomic_bool slow;        /* fake_leave() returns only once this is false */
	atomic_bool held, rests; /* the service's thread rests in fake_tick() while it is held */
	atomic_bool interrupts;  /* signals interrupt the thread `asker` while it waits for the status */
	pthread_t thread, asker;
	enum service_end end;
	int log[2], keeper[2];
};

static void interrupted(int number)
{
	(void)number;
}

static void fake_status(void *user, char *ret_text, size_t size)
{
	struct fake *fake = user;

	for (unsigned i = 0; i < 3 && fake->interrupts; i++) {
		usleep(10000);
		pthread_kill(fake->asker, SIGUSR1);
	}
	snprintf(ret_text, size, "{\"status\":1}");
}

static int fake_detach(void *user, char *ret_why, size_t size)
{
	struct fake *fake = user;

	fake->detaches++;
	snprintf(ret_why, size, "it is busy");
	return fake->busy ? -EBUSY : 0;
}

static int fake_leave(void *user, char *ret_why, size_t size)
{
	struct fake *fake = user;

	fake->leaves++;
	while (fake->slow)
		usleep(1000);
	snprintf(ret_why, size, "it cannot");
	return fake->busy ? -EOPNOTSUPP : 0;
}

static void fake_tick(void *user)
{
	struct fake *fake = user;

	while (fake->held) {
		fake->rests = true;
		usleep(1000);
	}
	fake->rests = false;
}

static void *fake_run(void *user)
{
	struct fake *fake = user;

	fake->end = service_run(&fake->service);
	return NULL;
}

static void fake_start(struct fake *fake)
{
	char path[RUNTIME_PATH_MAX + 16];
	sigset_t set;

	memset(fake, 0, sizeof *fake);
	sigaction(SIGUSR1, &(struct sigaction){.sa_handler = interrupted, .sa_flags = SA_RESTART}, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	runtime_path("fake", "control", path);
	if (pipe2(fake->log, O_NONBLOCK) < 0 || pipe(fake->keeper) < 0 ||
	    control_listen(path, &fake->service.control) < 0)
		exit(EXIT_FAILURE);
	log_set_fd(fake->log[1]);
	fake->service.signals = signalfd(-1, &set, SFD_NONBLOCK);
	fake->service.keeper = fake->keeper[1];
	fake->service.user = fake;
	fake->service.status = fake_status;
	fake->service.detach = fake_detach;
	fake->service.leave = fake_leave;
	fake->service.tick = fake_tick;
	if (pthread_create(&fake->thread, NULL, fake_run, fake) != 0)
		exit(EXIT_FAILURE);
}

static void fake_stop(struct fake *fake)
{
	pthread_join(fake->thread, NULL);
	close(fake->service.control);
	close(fake->service.signals);
	close(fake->keeper[1]);
	close(fake->log[0]);
	close(fake->log[1]);
}

/* Waits for a line in the log. */
static void log_wait(struct fake *fake, char line[256])
{
	struct pollfd polled = {.fd = fake->log[0], .events = POLLIN};
	ssize_t got;

	poll(&polled, 1, 10000);
	got = read(fake->log[0], line, 255);
	line[got > 0 ? got : 0] = 0;
}

static int connect_to(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char path[RUNTIME_PATH_MAX + 16];
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	runtime_path("fake", "control", path);
	strcpy(address.sun_path, path);
	if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
		exit(EXIT_FAILURE);
	return fd;
}

/* Callers that send nothing, send nonsense, or close their connection. */
static void bad_callers_delay_nobody(char reply[CONTROL_REPLY_MAX])
{
	char text[256];
	int silent = connect_to(), odd = connect_to();
	ssize_t got;

	close(connect_to());
	send(odd, "destroy everything", 18, 0);
	got = recv(odd, text, sizeof text - 1, 0);
	text[got > 0 ? got : 0] = 0;
	ok(!strncmp(text, "error: ", 7), "an unknown request gets an answer that begins with \"error: \"");
	close(odd);
	ok(control_ask("fake", CONTROL_STATUS, 10000, reply) > 0, "a silent connection does not delay another caller");
	close(silent);
}

static void a_service_answers_until_it_detaches_or_leaves(void)
{
	static char reply[CONTROL_REPLY_MAX];
	struct fake fake;
	char line[256];

	fake_start(&fake);
	ok(control_ask("fake", CONTROL_STATUS, 10000, reply) == 12 && !strcmp(reply, "{\"status\":1}"),
	   "a status request gets the status as answer");
	fake.asker = pthread_self();
	fake.interrupts = true;
	ok(control_ask("fake", CONTROL_STATUS, 10000, reply) == 12,
	   "a caller that signals interrupt still gets the whole status");
	fake.interrupts = false;
	bad_callers_delay_nobody(reply);
	fake.busy = true;
	ok(control_ask("fake", CONTROL_DETACH, 10000, reply) > 0 && !strcmp(reply, "error: it is busy"),
	   "a refused detach gets the reason as answer");
	ok(control_ask("fake", CONTROL_LEAVE, 10000, reply) > 0 && !strcmp(reply, "error: it cannot"),
	   "a refused leave gets the reason as answer");
	for (unsigned i = 0; i < 2; i++) {
		kill(getpid(), SIGTERM);
		log_wait(&fake, line);
		ok(strstr(line, "it is busy") && fake.detaches == 2 + i, "refused SIGTERM number %u logs the reason",
		   i + 1);
	}
	close(fake.keeper[0]);
	log_wait(&fake, line);
	ok(strstr(line, "adopt"), "the end of the keeper is logged");
	ok(control_ask("fake", CONTROL_STATUS, 10000, reply) > 0, "the service answers after its keeper has ended");
	fake.busy = false;
	ok(control_ask("fake", CONTROL_LEAVE, 10000, reply) > 0 && !strcmp(reply, "ok"),
	   "a leave gets \"ok\" as answer");
	fake_stop(&fake);
	ok(fake.end == SERVICE_LEFT && fake.leaves == 2, "the service ends as left after an accepted leave");
	ok(control_ask("fake", CONTROL_STATUS, 1000, reply) == -ECONNREFUSED,
	   "a request to an ended service gets -ECONNREFUSED");

	fake_start(&fake);
	kill(getpid(), SIGHUP);
	ok(control_ask("fake", CONTROL_STATUS, 10000, reply) > 0 && !fake.detaches, "SIGHUP does not end the service");
	kill(getpid(), SIGTERM);
	close(fake.keeper[0]);
	fake_stop(&fake);
	ok(fake.end == SERVICE_DETACHED && fake.detaches == 1, "SIGTERM ends the service as detached");
}

/* A caller tells the service to leave, but hangs up before the answer. So nobody takes over the device. */
static void a_leave_needs_a_caller_that_waits(void)
{
	static char reply[CONTROL_REPLY_MAX];
	struct fake fake;
	char line[256];
	int asker;

	fake_start(&fake);
	fake.slow = true;
	ok(control_ask("fake", CONTROL_LEAVE, 50, reply) == -ETIMEDOUT && fake.leaves == 1,
	   "a caller stops waiting for a slow leave at its timeout");
	asker = connect_to();
	send(asker, "leave", 5, 0);
	fake.slow = false;
	fake_stop(&fake);
	close(asker);
	ok(fake.end == SERVICE_ABANDONED, "the service ends as abandoned if its caller gave up during the leave");

	fake_start(&fake);
	fake.held = true;
	while (!fake.rests)
		usleep(1000);
	asker = connect_to();
	send(asker, "leave", 5, 0);
	close(asker);
	fake.held = false;
	log_wait(&fake, line);
	ok(strstr(line, "given up") && fake.leaves == 0,
	   "a leave whose caller gave up before it was read does not end the service");
	ok(control_ask("fake", CONTROL_LEAVE, 10000, reply) > 0 && !strcmp(reply, "ok"),
	   "a leave whose caller waits gets \"ok\" as answer");
	fake_stop(&fake);
	ok(fake.end == SERVICE_LEFT && fake.leaves == 1, "the service leaves once although an earlier caller gave up");
	close(fake.keeper[0]);
}

int main(void)
{
	setenv("FARPAGE_RUNTIME", folder(), 1);
	mkdir(folder_path("fake"), 0700);
	a_service_answers_until_it_detaches_or_leaves();
	a_leave_needs_a_caller_that_waits();
	return tap_done();
}
