/* Opening a store: each error is logged in time, in one line that names the donor and the next step. */
#include "client/donor/donor.h"
#include "common/clock.h"
#include "tests/func/client/proxy.h"
#include "tests/func/client/traffic.h"
#include "tests/lib/folder.h"
#include "tests/lib/loopback.h"
#include "wire/auth.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

/* Returns true if the log is one line that contains both texts. */
static bool log_says(const char *a, const char *b)
{
	const char *text = log_text(), *end = strchr(text, '\n');

	printf("# %s", *text ? text : "(nothing)\n");
	return end && !end[1] && strstr(text, a) && strstr(text, b);
}

/*
 * Opens a store with these donors. Returns true if that fails with @error before the deadline, logging the donor and
 * @hint.
 */
static bool open_fails(const char *const *uris, unsigned count, const uint8_t *key, int error, const char *hint)
{
	struct far_config config = {.donors = uris, .donor_count = count, .key = key, .replicas = 1};
	struct store *store;
	uint64_t start = clock_now();
	int status;

	config.fabric = FABRIC_CONFIG_DEFAULT;
	config.fabric.connect_ms = 1000;
	log_begin();
	status = far_open(&config, &store);
	if (status == 0)
		store_close(store);
	if (status != error)
		printf("# %d (%s)\n", status, strerror(-status));
	return log_says(count ? uris[count - 1] : "", hint) && status == error &&
	       clock_now() - start < 2 * UINT64_C(1000000000);
}

static bool query_fails(const char *uri, const uint8_t *key, int error, const char *hint)
{
	struct far_config config = {.key = key};
	struct far_donor_info donor;
	int status;

	config.fabric = FABRIC_CONFIG_DEFAULT;
	config.fabric.connect_ms = 1000;
	log_begin();
	status = far_query(&config, uri, &donor);
	return log_says(uri, hint) && status == error;
}

static void unreachable_donors_are_named(const struct rig *rig)
{
	const char *uris[] = {rig->donors[0].uri, "tcp://127.0.0.1:1"};
	char localhost[64];

	ok(open_fails(uris, 2, NULL, -ECONNREFUSED, "farpage-memserver running"),
	   "opening fails with -ECONNREFUSED if no program listens at the second donor");
	ok(query_fails(uris[1], NULL, -ECONNREFUSED, "farpage-memserver running"),
	   "a query fails with -ECONNREFUSED if no program listens at the donor");
	uris[1] = "tcp://no-such-host.invalid";
	ok(open_fails(uris, 2, NULL, -ENOENT, "check the name"),
	   "opening fails with -ENOENT if a donor's name does not resolve");
	uris[1] = "nonsense";
	ok(open_fails(uris, 2, NULL, -EINVAL, "tcp://HOST:PORT"),
	   "opening fails with -EINVAL if a donor's address is malformed");
	uris[1] = uris[0];
	ok(open_fails(uris, 2, NULL, -EINVAL, "twice"), "opening fails with -EINVAL if a donor is named twice");
	snprintf(localhost, sizeof localhost, "tcp://localhost:%u", rig->donors[0].port);
	uris[1] = localhost;
	ok(open_fails(uris, 2, NULL, -EINVAL, "are the same donor"),
	   "opening fails with -EINVAL if a donor is named twice under two names");
	ok(open_fails(uris, 0, NULL, -EINVAL, "--donor"), "opening fails with -EINVAL without donors");
}

static void silent_donor_times_out(struct rig *rig)
{
	const char *uris[] = {rig->donors[0].uri};

	kill(rig->donors[0].pid, SIGSTOP);
	ok(open_fails(uris, 1, NULL, -ETIMEDOUT, "in time"),
	   "opening fails with -ETIMEDOUT if a donor accepts and stays silent");
	kill(rig->donors[0].pid, SIGCONT);
}

static void wrong_use_of_a_key_is_explained(const struct rig *rig, const char *key_path)
{
	uint8_t key[AUTH_KEY_SIZE], wrong[AUTH_KEY_SIZE] = {1};
	const char *uris[1];
	struct donor_process locked;
	struct far_donor_info figures;
	struct far_config config = {.key = key};

	ok(auth_key_create(key_path) == 0 && auth_key_load(key_path, key) == 0, "a key file is made and loaded");
	donor_start(&locked, "--donate", "16M", "--slab", "1M", "--reserve", "1M", "--key", key_path);
	uris[0] = locked.uri;
	ok(open_fails(uris, 1, wrong, -EKEYREJECTED, "check --key"),
	   "opening fails with -EKEYREJECTED with a wrong key");
	ok(open_fails(uris, 1, NULL, -EKEYREJECTED, "with --key"),
	   "opening fails with -EKEYREJECTED without a key where one is needed");
	config.fabric = FABRIC_CONFIG_DEFAULT;
	ok(far_query(&config, locked.uri, &figures) == 0 && figures.donated == 16 << 20 && !figures.leased &&
	       figures.slab_bytes == 1 << 20,
	   "a query with the right key returns the donor's figures");
	uris[0] = rig->donors[0].uri;
	ok(open_fails(uris, 1, key, -EKEYREJECTED, "leave --key out"),
	   "opening fails with -EKEYREJECTED with a key where none is needed");
	donor_end(&locked);
}

/* A listener that is not a donor and answers any request with this text. */
struct impostor {
	int fd;
	char uri[64];
	const void *answer;
	size_t size;
	pthread_t thread;
};

static void *impostor_main(void *argument)
{
	struct impostor *impostor = argument;
	char bytes[256];
	int fd = accept4(impostor->fd, NULL, NULL, SOCK_CLOEXEC);

	if (fd >= 0 && recv(fd, bytes, sizeof bytes, 0) > 0)
		send(fd, impostor->answer, impostor->size, MSG_NOSIGNAL);
	/* Waits until the client hangs up. */
	while (fd >= 0 && recv(fd, bytes, sizeof bytes, 0) > 0)
		;
	close(fd);
	return NULL;
}

static void impostor_start(struct impostor *impostor, const void *answer, size_t size)
{
	uint16_t port;

	*impostor = (struct impostor){.fd = loopback_listen(&port), .answer = answer, .size = size};
	snprintf(impostor->uri, sizeof impostor->uri, "tcp://127.0.0.1:%u", port);
	pthread_create(&impostor->thread, NULL, impostor_main, impostor);
}

static void impostor_end(struct impostor *impostor)
{
	pthread_join(impostor->thread, NULL);
	close(impostor->fd);
}

static void other_service_is_refused(void)
{
	static const char http[] = "HTTP/1.1 400 Bad Request\r\nServer: something else entirely\r\n\r\n";
	struct impostor impostor;
	const char *uris[1];

	impostor_start(&impostor, http, sizeof http - 1);
	uris[0] = impostor.uri;
	ok(open_fails(uris, 1, NULL, -EPROTO, "not a farpage donor"),
	   "opening fails with -EPROTO if another service listens at the address");
	impostor_end(&impostor);
}

/* A donor of another version. It answers a hello with a reject, as wire.h demands. */
static void *rejecter_main(void *argument)
{
	struct fabric_listener *listener;
	struct fabric *fabric;
	struct impostor *impostor = argument;
	struct wire_reject reject = {.reason = WIRE_REASON_VERSION, .detail = 9};
	uint8_t bytes[WIRE_REJECT_SIZE];
	bool done = false;

	wire_encode_reject(&reject, bytes);
	if (fabric_open(NULL, &fabric) < 0 || fabric_listen(fabric, "tcp://127.0.0.1:0", &listener) < 0)
		abort();
	snprintf(impostor->uri, sizeof impostor->uri, "tcp://127.0.0.1:%u", fabric_listener_port(listener));
	impostor->fd = 1;
	__atomic_store_n(&impostor->size, 1, __ATOMIC_RELEASE);
	while (!done) {
		struct fabric_event event;

		if (fabric_wait(fabric, &event, 1, 1000) < 1 || event.kind != FABRIC_CONNECT_REQUEST)
			continue;
		fabric_reject(event.conn, bytes, sizeof bytes);
		done = true;
	}
	while (!__atomic_load_n(&impostor->answer, __ATOMIC_ACQUIRE)) {
		struct fabric_event event;

		fabric_wait(fabric, &event, 1, 20);
	}
	fabric_close(fabric);
	return NULL;
}

static void donor_of_another_version_is_refused(void)
{
	struct impostor impostor = {0};
	const char *uris[1];

	pthread_create(&impostor.thread, NULL, rejecter_main, &impostor);
	while (!__atomic_load_n(&impostor.size, __ATOMIC_ACQUIRE))
		sched_yield();
	uris[0] = impostor.uri;
	ok(open_fails(uris, 1, NULL, -EPROTONOSUPPORT, "version 9"),
	   "opening fails with -EPROTONOSUPPORT if the donor has another version");
	__atomic_store_n(&impostor.answer, "", __ATOMIC_RELEASE);
	pthread_join(impostor.thread, NULL);
}

static void donors_of_different_slab_sizes_are_refused(const struct rig *rig)
{
	const char *uris[2] = {rig->donors[0].uri};
	struct donor_process other;

	donor_start(&other, "--donate", "16M", "--slab", "2M", "--reserve", "1M");
	uris[1] = other.uri;
	ok(open_fails(uris, 2, NULL, -EINVAL, "same --slab"),
	   "opening fails with -EINVAL if donors' slab sizes differ");
	donor_end(&other);
}

/* Waits until the status of donor @index in a store of at most three donors is @status. */
static bool donor_becomes(const struct store *store, unsigned index, int status)
{
	struct far_donor_info donors[3];

	if (wait_until((far_donors(store, donors, 3), donors[index].status == status)))
		return true;
	printf("# it is %d (%s)\n", donors[index].status, strerror(-donors[index].status));
	return false;
}

static void *killer_main(void *argument)
{
	sleep_ms(300);
	donor_kill(argument);
	return NULL;
}

/* A donor welcomes the client, and dies while the client waits for another donor, which is silent. */
static void donor_that_dies_during_opening_is_left_out(void)
{
	struct impostor mute;
	pthread_t killer;
	struct rig rig;
	int status;

	rig_donors(&rig, 2, "16M");
	impostor_start(&mute, "", 0);
	rig.donor_count = rig.config.donor_count = 3;
	rig.config.go_without = true;
	rig.config.pages = RIG_SLAB_PAGES;
	rig.config.fabric.connect_ms = 1000;
	memcpy(rig.donors[2].uri, mute.uri, sizeof mute.uri);
	pthread_create(&killer, NULL, killer_main, &rig.donors[1]);
	status = rig_try(&rig);
	pthread_join(killer, NULL);
	ok(status == 0, "a store opens without a donor that dies while another one is waited for");
	if (status < 0)
		return;
	ok(donor_becomes(rig.store, 1, -ECONNRESET), "a donor that died during the opening is known as lost");
	donor_again(&rig.donors[1]);
	ok(donor_becomes(rig.store, 1, 0), "a donor that died during the opening is used once it starts again");
	store_close(rig.store);
	rig.store = NULL;
	impostor_end(&mute);
	rig_close(&rig);
}

/* One donor has two addresses. The second cannot be reached at first. */
static void donor_under_two_addresses_is_noticed_later(struct rig *rig)
{
	struct rig other = *rig;
	struct proxy proxy;

	proxy_start(&proxy, rig->donors[0].port);
	proxy_die(&proxy, true);
	other.donor_count = other.config.donor_count = 2;
	other.config.go_without = true;
	other.config.pages = 4 * RIG_SLAB_PAGES;
	snprintf(other.donors[1].uri, sizeof other.donors[1].uri, "tcp://127.0.0.1:%u", proxy.port);
	rig_open(&other);
	ok(rig_put(&other, 0, 1) == 0, "a store writes while its second donor does not answer yet");
	log_begin();
	proxy_die(&proxy, false);
	ok(log_wait("are the same donor: name it once", 1, NULL),
	   "a second address of the same donor is reported once it answers");
	ok(rig_has(&other, 0, 1), "a page is read right after the second address was reported");
	ok(rig_put(&other, RIG_SLAB_PAGES, 1) == 0, "a store with a doubled donor still leases slabs");
	rig_shut(&other, false);
	proxy_stop(&proxy);
}

int main(void)
{
	struct rig rig;

	log_keep();
	rig_donors(&rig, 1, "16M");
	unreachable_donors_are_named(&rig);
	silent_donor_times_out(&rig);
	wrong_use_of_a_key_is_explained(&rig, folder_path("key"));
	other_service_is_refused();
	donor_of_another_version_is_refused();
	donors_of_different_slab_sizes_are_refused(&rig);
	donor_that_dies_during_opening_is_left_out();
	donor_under_two_addresses_is_noticed_later(&rig);
	ok(rig_wait_leased(&rig, 0), "no slab is leased after all stores are closed");
	rig_close(&rig);
	return tap_done();
}
