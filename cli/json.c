/* json: see json.h. */
#include "cli/json.h"

void json_print(struct json_object *root, bool one_line, FILE *out)
{
	int form = one_line ? JSON_C_TO_STRING_PLAIN : JSON_C_TO_STRING_PRETTY;

	fprintf(out, "%s\n", json_object_to_json_string_ext(root, form | JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(root);
}
