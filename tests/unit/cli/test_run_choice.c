/* Unit tests of cli/run_choice: which engine farpage run chooses, and the line that explains the choice. */
#include "cli/run/run_choice.h"
#include "tests/lib/tap.h"

static char line[RUN_CHOICE_MAX];

static enum run_engine choose(const char *wanted, const char *path, const char *pager_lacks, const char *swap_lacks)
{
	const struct run_choice choice = {
	    .wanted = wanted, .path = path, .pager_lacks = pager_lacks, .swap_lacks = swap_lacks};

	memset(line, '!', sizeof line);
	return run_choose(&choice, line);
}

static bool says(const char *words)
{
	return strstr(line, words) != NULL;
}

static void auto_takes_the_pager_where_it_can(void)
{
	ok(choose("auto", "/usr/bin/sort", NULL, NULL) == RUN_ENGINE_PAGER && says("engine pager") &&
	       says("--engine swap"),
	   "\"auto\" takes the pager if both engines can, and mentions swap");
	ok(choose("auto", "/usr/bin/sort", NULL, "root: use sudo") == RUN_ENGINE_PAGER &&
	       says("swap would need root: use sudo"),
	   "\"auto\" takes the pager if swap cannot, and says what swap would need");
}

static void auto_takes_swap_for_what_the_pager_cannot_carry(void)
{
	ok(choose("auto", "/bin/busybox", "/bin/busybox: it is static", NULL) == RUN_ENGINE_SWAP &&
	       says("because the pager cannot: /bin/busybox: it is static"),
	   "\"auto\" takes swap if the pager cannot, and says why");
	ok(choose("auto", "/usr/sbin/apache2", NULL, NULL) == RUN_ENGINE_SWAP && says("children of apache2"),
	   "\"auto\" takes swap for a server of many processes, and says why");
	ok(choose("auto", "gunicorn", NULL, NULL) == RUN_ENGINE_SWAP,
	   "\"auto\" takes swap for a server that is named without a path");
	ok(choose("auto", "/usr/bin/chromium", NULL, NULL) == RUN_ENGINE_SWAP,
	   "\"auto\" takes swap for Chromium, whose pages are children of one process");
	ok(choose("auto", "/usr/bin/php-fpm8.2", NULL, NULL) == RUN_ENGINE_SWAP,
	   "\"auto\" takes swap for a server with a version in its name");
	ok(choose("auto", "/srv/apache2/sort", NULL, NULL) == RUN_ENGINE_PAGER,
	   "\"auto\" takes the pager although the folder has a server's name");
	ok(choose("auto", "/usr/sbin/apache2", NULL, "root: use sudo") == RUN_ENGINE_PAGER && says("budget") &&
	       says("root: use sudo"),
	   "\"auto\" takes the pager with a warning for a server of many processes if swap cannot");
}

static void programs_that_start_others_elsewhere_are_known(void)
{
	ok(run_choice_starts_elsewhere("/usr/bin/podman") && run_choice_starts_elsewhere("docker"),
	   "podman and docker have their containers started elsewhere");
	ok(!run_choice_starts_elsewhere("/usr/bin/docker-credential") &&
	       !run_choice_starts_elsewhere("/opt/podman/sort"),
	   "programs with such a name in their path have nothing started elsewhere");
}

static void no_engine_is_taken_if_neither_can(void)
{
	ok(choose("auto", "/bin/busybox", "/bin/busybox: it is static", "root: use sudo") == RUN_ENGINE_NONE &&
	       says("/bin/busybox: it is static") && says("swap would need root: use sudo"),
	   "\"auto\" takes no engine if neither can, and gives both reasons");
}

static void a_named_engine_is_taken_or_refused(void)
{
	ok(choose("pager", "/usr/sbin/apache2", NULL, NULL) == RUN_ENGINE_PAGER && !*line,
	   "\"pager\" takes the pager without a line");
	ok(choose("swap", "/usr/bin/sort", NULL, NULL) == RUN_ENGINE_SWAP && !*line,
	   "\"swap\" takes swap without a line");
	ok(choose("swap", "/bin/busybox", "/bin/busybox: it is static", NULL) == RUN_ENGINE_SWAP,
	   "\"swap\" takes swap although the pager cannot");
	ok(choose("pager", "/bin/busybox", "/bin/busybox: it is static", NULL) == RUN_ENGINE_NONE &&
	       !strcmp(line, "/bin/busybox: it is static"),
	   "\"pager\" takes no engine if the pager cannot, and gives the reason");
	ok(choose("swap", "/usr/bin/sort", NULL, "root: use sudo") == RUN_ENGINE_NONE &&
	       !strcmp(line, "/usr/bin/sort: --engine swap needs root: use sudo"),
	   "\"swap\" takes no engine if swap cannot, and gives the reason");
}

static void names_of_engines_are_exact(void)
{
	ok(run_choice_is_name("auto") && run_choice_is_name("pager") && run_choice_is_name("swap"),
	   "\"auto\", \"pager\" and \"swap\" are names of engines");
	ok(!run_choice_is_name("") && !run_choice_is_name("page") && !run_choice_is_name("Swap"),
	   "an empty name, \"page\" and \"Swap\" are no names of engines");
}

int main(void)
{
	auto_takes_the_pager_where_it_can();
	auto_takes_swap_for_what_the_pager_cannot_carry();
	programs_that_start_others_elsewhere_are_known();
	no_engine_is_taken_if_neither_can();
	a_named_engine_is_taken_or_refused();
	names_of_engines_are_exact();
	return tap_done();
}
