/* listing: see listing.h. */
#include "cli/listing.h"

#include "cli/commands.h"

int listing_begin(const struct subcommands_text *text, const char *key, const struct table_column *columns,
		  unsigned count, int argc, char **argv, struct listing *ret_listing)
{
	static struct table_style style;
	struct listing listing = {.key = key};
	const struct config_setting settings[] = {
	    {.name = "json", .kind = CONFIG_FLAG, .value = &listing.json, .help = "print JSON, with all that is known"},
	    TABLE_SETTINGS(&style),
	    {.name = NULL},
	};
	int status = subcommands_begin(text, settings, config_read(settings, NULL, argc, argv, NULL), argc, argv);

	if (status >= 0)
		return status;
	listing.table = table_open(text->name, columns, count, &style);
	if (!listing.table)
		return COMMAND_USAGE;
	listing.list = json_object_new_array();
	*ret_listing = listing;
	return -1;
}

void listing_print(struct listing *listing)
{
	struct json_object *root;

	if (!listing->json) {
		table_print(listing->table);
		json_object_put(listing->list);
		return;
	}
	table_close(listing->table);
	root = json_object_new_object();
	json_object_object_add(root, listing->key, listing->list);
	json_print(root, false, stdout);
}

void listing_drop(struct listing *listing)
{
	table_close(listing->table);
	json_object_put(listing->list);
}
