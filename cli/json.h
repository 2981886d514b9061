/* json: makes, reads and prints the JSON of all commands, in one form. Any thread. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Each function adds a member to @object. @name and @text are copied. */
void json_add_text(struct json_object *object, const char *name, const char *text);
void json_add_number(struct json_object *object, const char *name, uint64_t number);
void json_add_real(struct json_object *object, const char *name, double number);
void json_add_flag(struct json_object *object, const char *name, bool flag);
/* Returns a member of @object: NULL or 0 if it is missing. @object owns the text. */
const char *json_text(struct json_object *object, const char *name);
uint64_t json_number(struct json_object *object, const char *name);

/* Prints @root to @out and releases it. With @one_line, prints it in one line, for lists with an object in each line.
   The caller checks @out for errors (ferror(3)). */
void json_print(struct json_object *root, bool one_line, FILE *out);

#endif
