/* json: see json.h. */
#include "cli/json.h"

void json_add_text(struct json_object *object, const char *name, const char *text)
{
	json_object_object_add(object, name, json_object_new_string(text));
}

void json_add_number(struct json_object *object, const char *name, uint64_t number)
{
	json_object_object_add(object, name, json_object_new_uint64(number));
}

void json_add_real(struct json_object *object, const char *name, double number)
{
	json_object_object_add(object, name, json_object_new_double(number));
}

void json_add_flag(struct json_object *object, const char *name, bool flag)
{
	json_object_object_add(object, name, json_object_new_boolean(flag));
}

const char *json_text(struct json_object *object, const char *name)
{
	struct json_object *value;

	return json_object_object_get_ex(object, name, &value) ? json_object_get_string(value) : NULL;
}

uint64_t json_number(struct json_object *object, const char *name)
{
	struct json_object *value;

	return json_object_object_get_ex(object, name, &value) ? json_object_get_uint64(value) : 0;
}

void json_print(struct json_object *root, bool one_line, FILE *out)
{
	int form = one_line ? JSON_C_TO_STRING_PLAIN : JSON_C_TO_STRING_PRETTY;

	fprintf(out, "%s\n", json_object_to_json_string_ext(root, form | JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(root);
}
