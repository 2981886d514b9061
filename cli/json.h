/* json: prints the JSON of all commands in one form. Any thread. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>

/* Prints @root to @out and releases it. With @one_line, prints it in one line, for lists with an object in each line.
   The caller checks @out for errors (ferror(3)). */
void json_print(struct json_object *root, bool one_line, FILE *out);

#endif
