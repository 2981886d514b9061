/* holders: see holders.h. */
#include "cli/donors/holders.h"

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/table.h"
#include "common/size.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct holders {
	struct visit visit;
	bool json, several;
	struct table_style style;
	struct table *table; /* without --json */
};

#define DAY_S (24 * 60 * 60)
#define SINCE_MAX 32 /* some languages have long names of months */

enum holder_column {
	HOLDER_DONOR,
	HOLDER_CLIENT,
	HOLDER_HOST,
	HOLDER_USER,
	HOLDER_COMMAND,
	HOLDER_PID,
	HOLDER_SINCE,
	HOLDER_LEASED,
	HOLDER_SLABS,
	HOLDER_KEY,
	HOLDER_ADDRESS,
	HOLDER_STATE,
	HOLDER_COLUMNS
};
/* A row of usual names fits into 80 columns without the donor. */
static struct table_column columns[HOLDER_COLUMNS] = {
    [HOLDER_DONOR] = {.name = "DONOR", .extra = true}, /* not extra if there are several donors */
    [HOLDER_CLIENT] = {.name = "CLIENT"},
    [HOLDER_HOST] = {.name = "HOST", .cut = true},
    [HOLDER_USER] = {.name = "USER", .cut = true},
    [HOLDER_COMMAND] = {.name = "COMMAND", .cut = true},
    [HOLDER_PID] = {.name = "PID", .right = true},
    [HOLDER_SINCE] = {.name = "SINCE"},
    [HOLDER_LEASED] = {.name = "LEASED", .right = true},
    [HOLDER_SLABS] = {.name = "SLABS", .right = true, .extra = true},
    [HOLDER_KEY] = {.name = "KEY", .extra = true},
    [HOLDER_ADDRESS] = {.name = "ADDRESS", .extra = true},
    [HOLDER_STATE] = {.name = "STATE"},
};

int holders_each(const struct visit *visit,
		 void (*take)(const struct visit *visit, const struct wire_message *holder, void *to), void *to)
{
	struct wire_message request = {.type = WIRE_HOLDER}, holder;

	for (;;) {
		int status = operate_ask(visit->operate, &request, &holder);

		if (status < 0)
			return status;
		if (holder.type != WIRE_HOLDER_REPLY)
			return visit_denied(visit, &holder);
		if (holder.holder_reply.next <= request.holder.from)
			return 0;
		take(visit, &holder, to);
		request.holder.from = holder.holder_reply.next;
	}
}

static uint64_t leased(const struct visit *visit, const struct wire_message *holder)
{
	return holder->holder_reply.slabs * visit->slab_bytes;
}

static void name_format(const struct wire_message *holder, char name[2 * WIRE_NAME_SIZE + 1])
{
	for (unsigned i = 0; i < WIRE_NAME_SIZE; i++)
		snprintf(name + 2 * i, 3, "%02x", holder->holder_reply.name[i]);
}

/* Writes when the client got its first slab, as ps(1) does. If this was within a day, writes the time. If it was within
   a year, writes the day. Otherwise writes the year. */
static void since_format(const struct wire_message *holder, char since[SINCE_MAX])
{
	const time_t now = time(NULL), start = now - (time_t)holder->holder_reply.held_s;
	const char *format = now - start < DAY_S ? "%H:%M" : now - start < 365 * DAY_S ? "%b%d" : "%Y";
	struct tm date;

	if (!localtime_r(&start, &date) || !strftime(since, SINCE_MAX, format, &date))
		*since = '\0';
}

void holders_print_line(const struct visit *visit, const struct wire_message *holder, void *to)
{
	char name[2 * WIRE_NAME_SIZE + 1], size[SIZE_TEXT_MAX], about[WIRE_ABOUT_TEXT_MAX], since[SINCE_MAX];

	name_format(holder, name);
	since_format(holder, since);
	fprintf(to, "  client %s  %s  %s  %s in %u slab%s since %s%s\n", name,
		wire_about_text(&holder->holder_reply.about, about), holder->holder_reply.peer,
		size_format(leased(visit, holder), size), holder->holder_reply.slabs,
		holder->holder_reply.slabs == 1 ? "" : "s", since,
		holder->holder_reply.away ? ", vanished: they end if it does not come back" : "");
}

void holders_add_json(const struct visit *visit, const struct wire_message *holder, void *to)
{
	struct json_object *object = json_object_new_object();
	char name[2 * WIRE_NAME_SIZE + 1];

	name_format(holder, name);
	json_add_text(object, "client", name);
	json_add_text(object, "host", holder->holder_reply.about.host);
	json_add_text(object, "user", holder->holder_reply.about.user);
	json_add_text(object, "command", holder->holder_reply.about.command);
	json_add_number(object, "pid", holder->holder_reply.about.pid);
	json_add_text(object, "key", holder->holder_reply.key);
	json_add_text(object, "address", holder->holder_reply.peer);
	json_add_number(object, "held_seconds", holder->holder_reply.held_s);
	json_add_number(object, "slabs", holder->holder_reply.slabs);
	json_add_number(object, "leased_bytes", leased(visit, holder));
	json_add_flag(object, "vanished", holder->holder_reply.away);
	json_object_array_add(to, object);
}

static void row_add(const struct visit *visit, const struct wire_message *holder, void *to)
{
	char row[HOLDER_COLUMNS][TABLE_CELL_MAX] = {0}, size[SIZE_TEXT_MAX];
	const struct wire_about *about = &holder->holder_reply.about;

	snprintf(row[HOLDER_DONOR], TABLE_CELL_MAX, "%s", visit->uri);
	name_format(holder, row[HOLDER_CLIENT]);
	snprintf(row[HOLDER_HOST], TABLE_CELL_MAX, "%s", *about->host ? about->host : "-");
	snprintf(row[HOLDER_USER], TABLE_CELL_MAX, "%s", *about->user ? about->user : "-");
	snprintf(row[HOLDER_COMMAND], TABLE_CELL_MAX, "%s", *about->command ? about->command : "-");
	snprintf(row[HOLDER_PID], TABLE_CELL_MAX, "%u", about->pid);
	since_format(holder, row[HOLDER_SINCE]);
	snprintf(row[HOLDER_KEY], TABLE_CELL_MAX, "%s", *holder->holder_reply.key ? holder->holder_reply.key : "-");
	snprintf(row[HOLDER_ADDRESS], TABLE_CELL_MAX, "%s", holder->holder_reply.peer);
	snprintf(row[HOLDER_LEASED], TABLE_CELL_MAX, "%s", size_format(leased(visit, holder), size));
	snprintf(row[HOLDER_SLABS], TABLE_CELL_MAX, "%u", holder->holder_reply.slabs);
	snprintf(row[HOLDER_STATE], TABLE_CELL_MAX, "%s", holder->holder_reply.away ? "vanished" : "connected");
	table_add(to, row);
}

static int json_show(const struct holders *holders)
{
	struct json_object *root = json_object_new_object(), *list = json_object_new_array();
	int status = holders_each(&holders->visit, holders_add_json, list);

	json_add_text(root, "donor", holders->visit.uri);
	json_object_object_add(root, "holders", list);
	if (status == 0)
		json_print(root, holders->several, stdout);
	else
		json_object_put(root);
	return status;
}

static int donor_show(void *user)
{
	const struct holders *holders = user;
	int status = holders->json ? json_show(holders) : holders_each(&holders->visit, row_add, holders->table);

	return status < 0 ? COMMAND_FAILED : COMMAND_OK;
}

/* Returns the exit status. */
static int donors_show(struct holders *holders, const struct config_list *donors)
{
	int status = COMMAND_OK;

	holders->several = donors->count > 1;
	columns[HOLDER_DONOR].extra = !holders->several;
	if (!holders->json) {
		holders->table = table_open("donors holders", columns, HOLDER_COLUMNS, &holders->style);
		if (!holders->table)
			return COMMAND_USAGE;
	}
	for (unsigned i = 0; i < donors->count; i++) {
		holders->visit.uri = donors->items[i];
		if (visit_run(&holders->visit, donor_show, holders) != COMMAND_OK)
			status = COMMAND_FAILED;
	}
	if (holders->json)
		return status;
	if (status == COMMAND_FAILED && !holders->several)
		table_close(holders->table);
	else
		table_print(holders->table);
	return status;
}

int holders_command(int argc, char **argv)
{
	static struct holders holders; /* static, because strings from config_read() are never freed */
	static struct config_list defaults, donors;
	const struct config_setting settings[] = {
	    {"donor", CONFIG_LIST, &defaults, 0, 0, "URI",
	     "the same as URI alone; without any, the donors of farpage.ini are asked"},
	    {"key", CONFIG_STRING, &holders.visit.key_file, 0, 0, "FILE", "the key shared with the donors"},
	    {"admin-key", CONFIG_STRING, &holders.visit.key_file, 0, 0, "FILE",
	     "the donors' admin key, in place of --key: a donor that has one tells its holder only"},
	    {"json", CONFIG_FLAG, &holders.json, 0, 0, NULL,
	     "print JSON, sizes in bytes; with several donors a line for each"},
	    TABLE_SETTINGS(&holders.style),
	    {0},
	};
	int status = visit_read("holders", settings, argc, argv, &defaults, &donors);

	if (status == -ECANCELED) {
		printf("usage: farpage donors holders URI [URI...] [OPTION...]\n"
		       "       farpage donors holders @FILE [OPTION...]\n\n"
		       "Lists the clients that lease memory of donors: host, user and command, as each client\n"
		       "names them, since when it leases memory, and how much. --output also takes DONOR, SLABS,\n"
		       "KEY and ADDRESS. A client that has vanished keeps its leases for the donor's grace time.\n\n");
		config_help(settings);
		return COMMAND_OK;
	}
	return status < 0 ? COMMAND_USAGE : donors_show(&holders, &donors);
}
