/* advice_file: see advice_file.h. */
#include "cli/run/advice_file.h"

#include "common/log.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>

struct json_object *advice_file_fetches(const struct advice *advice)
{
	struct json_object *fetches = json_object_new_array();

	for (unsigned step = 0; fetches && step <= ADVICE_STEPS; step++)
		json_object_array_add(fetches, json_object_new_uint64(advice->fetches[step]));
	return fetches;
}

static bool get_number(const struct json_object *number, uint64_t *ret_value)
{
	*ret_value = json_object_get_uint64(number);
	return json_object_is_type(number, json_type_int) && json_object_get_int64(number) >= 0;
}

/* Returns false if @root lacks a fact. */
static bool parse(const struct json_object *root, struct advice *ret_advice)
{
	const struct {
		const char *name;
		uint64_t *value;
	} numbers[] = {
	    {"local_bytes", &ret_advice->local_bytes}, {"wanted_bytes", &ret_advice->wanted_bytes},
	    {"waiting_ns", &ret_advice->waiting_ns},   {"computing_ns", &ret_advice->computing_ns},
	    {"pager_ns", &ret_advice->pager_ns},       {"wall_ns", &ret_advice->wall_ns},
	};
	struct json_object *fetches, *number;
	for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
		if (!json_object_object_get_ex(root, numbers[i].name, &number) || !get_number(number, numbers[i].value))
			return false;
	if (!json_object_object_get_ex(root, ADVICE_FILE_FETCHES, &fetches) ||
	    !json_object_is_type(fetches, json_type_array) || json_object_array_length(fetches) != ADVICE_STEPS + 1)
		return false;
	for (unsigned step = 0; step <= ADVICE_STEPS; step++)
		if (!get_number(json_object_array_get_idx(fetches, step), &ret_advice->fetches[step]))
			return false;
	return true;
}

int advice_file_read(const char *path, struct advice *ret_advice)
{
	struct json_object *root;

	errno = 0;
	root = json_object_from_file(path);
	if (!root && errno) {
		log_error("cannot read %s: %s", path, strerror(errno));
		return -errno;
	}
	bool found = parse(root, ret_advice);
	json_object_put(root);
	if (found)
		return 0;
	log_error("%s has no figures for an advice; `farpage run --engine pager --stats FILE` writes them", path);
	return -EINVAL;
}
