/* Unit tests of cli/run_choice: which engine farpage run takes, and what it says. */
#include "cli/run/run_choice.h"
#include "tests/tap.h"

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
	   "both can: the pager, and swap is mentioned");
	ok(choose("auto", "/usr/bin/sort", NULL, "root: use sudo") == RUN_ENGINE_PAGER &&
	       says("swap would need root: use sudo"),
	   "swap lacks something: the pager, and what swap would need");
}

static void auto_takes_swap_for_what_the_pager_cannot_carry(void)
{
	ok(choose("auto", "/bin/busybox", "/bin/busybox: it is static", NULL) == RUN_ENGINE_SWAP &&
	       says("because the pager cannot: /bin/busybox: it is static"),
	   "the pager lacks something: swap, and why");
	ok(choose("auto", "/usr/bin/redis-server", NULL, NULL) == RUN_ENGINE_SWAP && says("children of redis-server"),
	   "a server that forks: swap, and why");
	ok(choose("auto", "gunicorn", NULL, NULL) == RUN_ENGINE_SWAP, "so is one that is named without a path");
	ok(choose("auto", "/usr/bin/php-fpm8.2", NULL, NULL) == RUN_ENGINE_SWAP,
	   "so is one with a version in its name");
	ok(choose("auto", "/srv/redis-server/sort", NULL, NULL) == RUN_ENGINE_PAGER,
	   "the folder's name does not count");
	ok(choose("auto", "/usr/bin/redis-server", NULL, "root: use sudo") == RUN_ENGINE_PAGER && says("half") &&
	       says("root: use sudo"),
	   "a server that forks, without swap: the pager, and a warning");
}

static bool redis_takes_the_pager(char *const arguments[])
{
	const struct run_choice choice = {.wanted = "auto", .path = "/usr/bin/redis-server", .arguments = arguments};
	return run_choose(&choice, line) == RUN_ENGINE_PAGER;
}

static void redis_that_never_saves_takes_the_pager(void)
{
	char program[] = "redis-server", save[] = "--save", nothing[] = "", hourly[] = "3600 1";
	char append[] = "--appendonly", yes[] = "yes", no[] = "no";

	ok(redis_takes_the_pager((char *[]){program, save, nothing, NULL}), "--save '': no child, so the pager");
	ok(redis_takes_the_pager((char *[]){program, save, nothing, append, no, NULL}),
	   "--save '' --appendonly no: no child, so the pager");
	ok(!redis_takes_the_pager((char *[]){program, NULL}), "no --save: Redis saves by default, so swap");
	ok(!redis_takes_the_pager((char *[]){program, save, NULL}), "--save without a value: swap");
	ok(!redis_takes_the_pager((char *[]){program, save, nothing, save, hourly, NULL}),
	   "--save '' and a later --save: swap");
	ok(!redis_takes_the_pager((char *[]){program, save, nothing, append, yes, NULL}),
	   "--save '' but --appendonly yes: the log is rewritten by a child, so swap");
}

static void nothing_is_left_to_take(void)
{
	ok(choose("auto", "/bin/busybox", "/bin/busybox: it is static", "root: use sudo") == RUN_ENGINE_NONE &&
	       says("/bin/busybox: it is static") && says("swap would need root: use sudo"),
	   "neither can: both reasons");
}

static void a_named_engine_is_taken_or_refused(void)
{
	ok(choose("pager", "/usr/bin/redis-server", NULL, NULL) == RUN_ENGINE_PAGER && !*line,
	   "the pager by name, without a word");
	ok(choose("swap", "/usr/bin/sort", NULL, NULL) == RUN_ENGINE_SWAP && !*line, "swap by name, without a word");
	ok(choose("swap", "/bin/busybox", "/bin/busybox: it is static", NULL) == RUN_ENGINE_SWAP,
	   "what the pager lacks is not swap's concern");
	ok(choose("pager", "/bin/busybox", "/bin/busybox: it is static", NULL) == RUN_ENGINE_NONE &&
	       !strcmp(line, "/bin/busybox: it is static"),
	   "the pager by name, which cannot: the reason");
	ok(choose("swap", "/usr/bin/sort", NULL, "root: use sudo") == RUN_ENGINE_NONE &&
	       !strcmp(line, "/usr/bin/sort: --engine swap needs root: use sudo"),
	   "swap by name, which cannot: the reason");
}

static void names(void)
{
	ok(run_choice_is_name("auto") && run_choice_is_name("pager") && run_choice_is_name("swap"),
	   "the names there are");
	ok(!run_choice_is_name("") && !run_choice_is_name("page") && !run_choice_is_name("Swap"), "and no others");
}

int main(void)
{
	auto_takes_the_pager_where_it_can();
	auto_takes_swap_for_what_the_pager_cannot_carry();
	redis_that_never_saves_takes_the_pager();
	nothing_is_left_to_take();
	a_named_engine_is_taken_or_refused();
	names();
	return tap_done();
}
