/* SPDX-License-Identifier: MIT */
/* lib/schema.c: what each keyword takes and refuses, and what is refused as a schema; in rows of
 * schema, value and message (NULL: it is right). An apostrophe stands for a quotation mark. */
#include "lib/tools/schema.h"

#include <errno.h>
#include <time.h>

#include "check.h"
#include "lib/tools/decimal.h"

#define MAX (8u << 20)

/* ---- allocations that fail (--wrap, see meson.build) ---------------------------------------- */

static struct {
    bool armed;
    unsigned long count, fail_at;
} torture;

static bool fails(void)
{
    return torture.armed && ++torture.count == torture.fail_at;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return fails() ? NULL : __real_realloc(memory, size);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

/* ---- rows ----------------------------------------------------------------------------------- */

struct row {
    const char *schema, *value, *message;
};

/* {"schema": ..., "value": ...} */
static struct jsonr *read_pair(const char *schema, const char *value)
{
    struct brig_error err = {0};
    size_t size = strlen(schema) + strlen(value) + 32;
    char *text = malloc(size);
    assert_non_null(text);
    int len = snprintf(text, size, "{'schema':%s,'value':%s}", schema, value);
    for (char *c = text; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    struct jsonr *root = jsonr_object(text, (size_t)len, MAX, "row", "test", &err);
    free(text);
    if (!root)
        print_error("%.200s: %s\n", schema, err.text);
    assert_non_null(root);
    return root;
}

static int check_pair(const struct jsonr *root, struct brig_error *err)
{
    struct schema *schema = NULL;
    *err = (struct brig_error){0};
    int ret = schema_new(&schema, jsonr_get(root, "schema"), "tool", err);
    if (ret < 0)
        return ret;
    ret = schema_check(schema, jsonr_get(root, "value"), "args", err);
    schema_free(schema);
    return ret;
}

static void check_row(const struct row *row)
{
    struct brig_error err;
    struct jsonr *root = read_pair(row->schema, row->value);
    int ret = check_pair(root, &err);
    jsonr_free(root);
    char message[512];
    snprintf(message, sizeof message, "%s", row->message ? row->message : "");
    for (char *c = message; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    bool same = row->message ? ret == -EINVAL && err.fault == BRIG_FAULT_USAGE &&
                                   strcmp(err.stage, "schema") == 0 && !strcmp(err.text, message)
                             : ret == 0;
    if (!same)
        print_error("%.200s\n%.200s\n  gives %d \"%s\"\n  not \"%s\"\n", row->schema, row->value,
                    ret, err.text, row->message ? message : "");
    assert_true(same);
}

#define CHECK_ROWS(rows)                                                                           \
    for (size_t i = 0; i < COUNT(rows); i++)                                                       \
    check_row(&(rows)[i])

static void test_types(void **state)
{
    static const struct row rows[] = {
        {"{}", "1"},
        {"true", "{'a':[1,null]}"},
        {"false", "1", "args: nothing is allowed here"},
        {"{'type':'null'}", "null"},
        {"{'type':'null'}", "0", "args: must be of type null, is 0"},
        {"{'type':'boolean'}", "true"},
        {"{'type':'boolean'}", "false"},
        {"{'type':'boolean'}", "'true'", "args: must be of type boolean, is 'true'"},
        {"{'type':'integer'}", "1"},
        {"{'type':'integer'}", "-0"},
        {"{'type':'integer'}", "1.0"},
        {"{'type':'integer'}", "1.50e1"},
        {"{'type':'integer'}", "1e300"},
        {"{'type':'integer'}", "0.0e-5"},
        {"{'type':'integer'}", "1.5", "args: must be of type integer, is 1.5"},
        {"{'type':'integer'}", "1e-1", "args: must be of type integer, is 1e-1"},
        {"{'type':'integer'}", "1.0000000000000000000000000000001",
         "args: must be of type integer, is 1.0000000000000000000000000000001"},
        {"{'type':'number'}", "1"},
        {"{'type':'number'}", "1.5"},
        {"{'type':'number'}", "'1'", "args: must be of type number, is '1'"},
        {"{'type':'string'}", "''"},
        {"{'type':'string'}", "null", "args: must be of type string, is null"},
        {"{'type':'array'}", "[]"},
        {"{'type':'array'}", "{}", "args: must be of type array, is an object"},
        {"{'type':'object'}", "{}"},
        {"{'type':'object'}", "[1,2]", "args: must be of type object, is an array of 2"},
        {"{'type':['string','null']}", "null"},
        {"{'type':['string','null']}", "'a'"},
        {"{'type':['string','null','integer']}", "true",
         "args: must be of type null, integer or string, is true"},
    };
    CHECK_ROWS(rows);
}

static void test_enum_and_const(void **state)
{
    static const struct row rows[] = {
        {"{'enum':['a','b',3]}", "'b'"},
        {"{'enum':['a','b',3]}", "3.0"},
        {"{'enum':['a','b',3]}", "30e-1"},
        {"{'enum':['a','b',3]}", "'c'", "args: must be one of 'a', 'b', 3, is 'c'"},
        {"{'enum':[true]}", "1", "args: must be one of true, is 1"},
        {"{'enum':[0]}", "false", "args: must be one of 0, is false"},
        {"{'const':null}", "null"},
        {"{'const':null}", "false", "args: must be null, is false"},
        {"{'const':1}", "1.0"},
        {"{'const':1}", "1e0"},
        {"{'const':1}", "10e-1"},
        {"{'const':0}", "-0.0"},
        {"{'const':9007199254740993}", "9007199254740992",
         "args: must be 9007199254740993, is 9007199254740992"},
        {"{'const':9007199254740993}", "9007199254740993.000"},
        {"{'const':0.1}", "0.1000000000000000055511151231257827",
         "args: must be 0.1, is 0.1000000000000000055511151231257827"},
        {"{'const':{'a':1,'b':[2,{'c':null}]}}", "{'b':[2.0,{'c':null}],'a':1}"},
        {"{'const':{'a':1,'b':[2]}}", "{'b':[2,3],'a':1}", "args: must be an object, is an object"},
        {"{'const':{'a':1}}", "{'b':1}", "args: must be an object, is an object"},
        {"{'const':[]}", "[]"},
        {"{'const':[1,2]}", "[2,1]", "args: must be an array of 2, is an array of 2"},
        {"{'const':''}", "''"},
        {"{'const':'\\u00e9'}", "'é'"},
        {"{'const':'a'}", "'A'", "args: must be 'a', is 'A'"},
    };
    CHECK_ROWS(rows);
}

static void test_numbers(void **state)
{
    static const struct row rows[] = {
        {"{'minimum':1}", "1"},
        {"{'minimum':1}", "0.9999999999999999999999", /* 1, as a double */
         "args: must be >= 1, is 0.9999999999999999999999"},
        {"{'minimum':1}", "'x'"},
        {"{'maximum':10}", "10.0"},
        {"{'properties':{'depth':{'maximum':10}}}", "{'depth':12}",
         "args: /depth: must be <= 10, is 12"},
        {"{'exclusiveMinimum':0}", "1e-320"},
        {"{'exclusiveMinimum':0}", "0", "args: must be > 0, is 0"},
        {"{'exclusiveMinimum':0}", "-0.0", "args: must be > 0, is -0.0"},
        {"{'exclusiveMaximum':1}", "0.99"},
        {"{'exclusiveMaximum':1}", "1e0", "args: must be < 1, is 1e0"},
        {"{'maximum':9007199254740992}", "9007199254740993",
         "args: must be <= 9007199254740992, is 9007199254740993"},
        {"{'maximum':-5}", "-5.1"},
        {"{'maximum':-5}", "-4.9", "args: must be <= -5, is -4.9"},
        {"{'minimum':-5}", "3"},
        {"{'minimum':1e300}", "1e301"},
        {"{'minimum':1e300}", "9.9e299", "args: must be >= 1e300, is 9.9e299"},
        {"{'maximum':1}", "1e-99999999999999999999999"},
        {"{'minimum':0.1}", "1E-1"},
        {"{'multipleOf':0.01}", "19.99"},
        {"{'multipleOf':0.01}", "4.35"},
        {"{'multipleOf':0.01}", "0.015", "args: must be a multiple of 0.01, is 0.015"},
        {"{'multipleOf':3}", "9007199254740993"},
        {"{'multipleOf':2}", "9007199254740993",
         "args: must be a multiple of 2, is 9007199254740993"},
        {"{'multipleOf':2.5}", "-7.5"},
        {"{'multipleOf':2.5}", "0"},
        {"{'multipleOf':0.1}", "1e300"},
        {"{'multipleOf':7}", "1e300", "args: must be a multiple of 7, is 1e300"},
        {"{'multipleOf':1024}", "1e300"},
        {"{'multipleOf':1e2}", "250", "args: must be a multiple of 1e2, is 250"},
        {"{'multipleOf':1e2}", "2500"},
        {"{'multipleOf':1e-300}", "5"},
        {"{'multipleOf':0.123456789012345678901234567891}", "0.246913578024691357802469135782"},
    };
    CHECK_ROWS(rows);
}

static void test_strings(void **state)
{
    static const struct row rows[] = {
        {"{'minLength':2}", "'ab'"},
        {"{'minLength':2}", "'é'", "args: must have at least 2 characters, has 1"},
        {"{'maxLength':2}", "'éé'"},
        {"{'maxLength':1}", "'\\ud83d\\ude00'"},
        {"{'maxLength':2.0}", "'abc'", "args: must have at most 2 characters, has 3"},
        {"{'maxLength':1}", "123456"},
        {"{'maxLength':1e30}", "'abc'"},
        {"{'pattern':'b'}", "'abc'"},
        {"{'pattern':'^b'}", "'abc'", "args: must match the pattern '^b', is 'abc'"},
        {"{'pattern':'^a$'}", "'a\\n'", "args: must match the pattern '^a$', is 'a\\x0a'"},
        {"{'pattern':'^a$'}", "'b\\na'", "args: must match the pattern '^a$', is 'b\\x0aa'"},
        {"{'pattern':''}", "''"},
        {"{'pattern':'^.$'}", "'é'"},
        {"{'pattern':'^.$'}", "'\\r'", "args: must match the pattern '^.$', is '\\x0d'"},
        {"{'pattern':'^[^]$'}", "'\\n'"},
        {"{'pattern':'[]'}", "'a'", "args: must match the pattern '[]', is 'a'"},
        {"{'pattern':'^\\\\d+$'}", "'\\u0661'",
         "args: must match the pattern '^\\d+$', is '\xd9\xa1'"},
        {"{'pattern':'^\\\\w$'}", "'é'", "args: must match the pattern '^\\w$', is 'é'"},
        {"{'pattern':'^\\\\s\\\\s\\\\s$'}", "' \\u00a0\\ufeff'"},
        {"{'pattern':'^\\\\S$'}", "'\\u00a0'",
         "args: must match the pattern '^\\S$', is '\xc2\xa0'"},
        {"{'pattern':'^[\\\\s\\\\S]{2}$'}", "'\\n '"},
        {"{'pattern':'^[\\\\w.-]+$'}", "'a.b-c'"},
        {"{'pattern':'^\\\\u00e9\\\\x41\\\\u{1f600}\\\\ud83d\\\\ude00$'}",
         "'éA\\ud83d\\ude00\\ud83d\\ude00'"},
        {"{'pattern':'^\\\\v$'}", "'\\n'", "args: must match the pattern '^\\v$', is '\\x0a'"},
        {"{'pattern':'^\\\\v$'}", "'\\u000b'"},
        {"{'pattern':'^(a)\\\\1$'}", "'aa'"},
        {"{'pattern':'^(?<x>a|b)\\\\k<x>$'}", "'bb'"},
        {"{'pattern':'^(?<x>a|b)\\\\k<x>$'}", "'ba'",
         "args: must match the pattern '^(?<x>a|b)\\k<x>$', is 'ba'"},
        {"{'pattern':'^(?!.*\\\\.\\\\.)[a-z.]+$'}", "'a.b'"},
        {"{'pattern':'^(?!.*\\\\.\\\\.)[a-z.]+$'}", "'a..b'",
         "args: must match the pattern '^(?!.*\\.\\.)[a-z.]+$', is 'a..b'"},
        {"{'pattern':'(?<=a)b'}", "'ab'"},
        {"{'pattern':'^\\\\p{Lu}\\\\P{L}$'}", "'É1'"},
        {"{'pattern':'^{a}{,2}$'}", "'{a}{,2}'"},
        {"{'pattern':'^a{2,3}?$'}", "'aaa'"},
        {"{'pattern':'^[[:alpha:]]$'}", "'a]'"},
        {"{'pattern':'^[\\\\]\\\\[\\\\b]$'}", "'\\b'"},
        {"{'pattern':'^[.a.][:a:][=a=]$'}", "'.:='"},
        {"{'pattern':'^[]?[]*a$'}", "'a'"},
        {"{'pattern':'^[\\\\S\\\\n]$'}", "'\\u00a0'",
         "args: must match the pattern '^[\\S\\n]$', is '\xc2\xa0'"},
        {"{'pattern':'^\\\\/\\\\-\\\\.$'}", "'/-.'"},
        {"{'pattern':'^(?:a|b)*c$'}", "'abbac'"},
        {"{'pattern':'\\\\bfoo\\\\b'}", "'a foo b'"},
        {"{'pattern':'^(?:(a)|b)*\\\\1$'}", "'b'"},
    };
    CHECK_ROWS(rows);
}

static void test_arrays(void **state)
{
    static const struct row rows[] = {
        {"{'items':{'type':'integer'}}", "[1,2]"},
        {"{'items':{'type':'integer'}}", "[]"},
        {"{'items':{'type':'integer'}}", "{}"},
        {"{'items':{'type':'integer'}}", "[1,'x',true]",
         "args: /1: must be of type integer, is 'x'"},
        {"{'items':true}", "[1]"},
        {"{'items':false}", "[1]", "args: /0: no such element (there are at most 0)"},
        {"{'prefixItems':[{'type':'string'},{'type':'null'}]}", "['a',null,7]"},
        {"{'prefixItems':[{'type':'string'},{'type':'null'}]}", "['a']"},
        {"{'prefixItems':[{'type':'string'},{'type':'null'}]}", "['a',1]",
         "args: /1: must be of type null, is 1"},
        {"{'prefixItems':[{}],'items':false}", "[1,2]",
         "args: /1: no such element (there are at most 1)"},
        {"{'prefixItems':[{}],'items':{'minimum':5}}", "[1,5,4]", "args: /2: must be >= 5, is 4"},
        {"{'contains':{'const':1}}", "[0,1]"},
        {"{'contains':{'const':1}}", "[0]",
         "args: must have at least 1 elements that match 'contains', has 0"},
        {"{'contains':{'const':1},'minContains':0}", "[0]"},
        {"{'contains':{'const':1},'minContains':2}", "[1,1]"},
        {"{'contains':{'const':1},'minContains':2}", "[1,2]",
         "args: must have at least 2 elements that match 'contains', has 1"},
        {"{'contains':{'const':1},'maxContains':1}", "[1,2,1]",
         "args: must have at most 1 elements that match 'contains', has 2"},
        {"{'minItems':1}", "[1]"},
        {"{'minItems':1}", "[]", "args: must have at least 1 elements, has 0"},
        {"{'maxItems':1}", "[1]"},
        {"{'maxItems':1}", "[1,2]", "args: must have at most 1 elements, has 2"},
        {"{'uniqueItems':true}", "[1,2,'1',true,[1],{'a':1},{'a':2},[],{}]"},
        {"{'uniqueItems':true}", "[1,2,1.0]", "args: must not have equal elements; 0 and 2 are"},
        {"{'uniqueItems':true}", "[0,{'a':1,'b':2},{'b':2,'a':10e-1}]",
         "args: must not have equal elements; 1 and 2 are"},
        {"{'uniqueItems':true}", "[0,-0.0]", "args: must not have equal elements; 0 and 1 are"},
        {"{'uniqueItems':true}", "[[1,2],[2,1],[12]]"},
        {"{'uniqueItems':false}", "[1,1]"},
    };
    CHECK_ROWS(rows);
}

static void test_objects(void **state)
{
    static const struct row rows[] = {
        {"{'properties':{'a':{'type':'string'}}}", "{'a':'x','b':1}"},
        {"{'properties':{'a':{'type':'string'}}}", "{'a':1}",
         "args: /a: must be of type string, is 1"},
        {"{'properties':{'a':{'properties':{'b/c':{'items':{'maximum':1}}}}}}",
         "{'a':{'b/c':[0,2]}}", "args: /a/b~1c/1: must be <= 1, is 2"},
        {"{'properties':{'a':{}}}", "[1]"},
        {"{'required':['a']}", "{'a':null}"},
        {"{'required':['path']}", "{}", "args: required property 'path' is missing"},
        {"{'properties':{'o':{'required':['path']}}}", "{'o':{}}",
         "args: /o: required property 'path' is missing"},
        {"{'required':[]}", "{}"},
        {"{'properties':{'name':{},'depth':{}},'additionalProperties':false}", "{'name':1}"},
        {"{'properties':{'name':{},'depth':{}},'additionalProperties':false}", "{'nmae':1}",
         "args: /nmae: no such property (there are: name, depth)"},
        {"{'additionalProperties':false}", "{'x':1}",
         "args: /x: no such property (there are: none)"},
        {"{'additionalProperties':false}", "{}"},
        {"{'additionalProperties':true}", "{'x':1}"},
        {"{'properties':{'a':{}},'additionalProperties':{'type':'null'}}", "{'a':1,'b':null}"},
        {"{'properties':{'a':{}},'additionalProperties':{'type':'null'}}", "{'a':1,'b':2}",
         "args: /b: must be of type null, is 2"},
        {"{'patternProperties':{'^x-':{'type':'integer'}}}", "{'x-a':1,'y':'z'}"},
        {"{'patternProperties':{'^x-':{'type':'integer'}}}", "{'x-a':'1'}",
         "args: /x-a: must be of type integer, is '1'"},
        {"{'patternProperties':{'^x-':{}},'additionalProperties':false}", "{'x-a':1,'y':1}",
         "args: /y: no such property (there are: none, and some by pattern)"},
        {"{'properties':{'ab':{'minimum':1}},'patternProperties':{'a':{'maximum':5},'b':{'"
         "multipleOf'"
         ":2}}}",
         "{'ab':4}"},
        {"{'properties':{'ab':{'minimum':1}},'patternProperties':{'a':{'maximum':5},'b':{'"
         "multipleOf'"
         ":2}}}",
         "{'ab':3}", "args: /ab: must be a multiple of 2, is 3"},
        {"{'propertyNames':{'maxLength':3}}", "{'abc':1}"},
        {"{'propertyNames':{'maxLength':3}}", "{'abcd':1}",
         "args: /abcd: as a name: must have at most 3 characters, has 4"},
        {"{'propertyNames':{'enum':['a']}}", "{'b':1}",
         "args: /b: as a name: must be one of 'a', is 'b'"},
        {"{'minProperties':1}", "{'a':1}"},
        {"{'minProperties':1}", "{}", "args: must have at least 1 properties, has 0"},
        {"{'maxProperties':1}", "{'a':1}"},
        {"{'maxProperties':1}", "{'a':1,'b':2}", "args: must have at most 1 properties, has 2"},
        {"{'dependentRequired':{'a':['b']}}", "{'b':1}"},
        {"{'dependentRequired':{'a':['b']}}", "{'a':1,'b':1}"},
        {"{'dependentRequired':{'a':['b','c']}}", "{'a':1,'b':1}",
         "args: required property 'c' is missing (there is 'a')"},
        {"{'properties':{'__proto__':{'type':'null'}},'required':['']}", "{'__proto__':null,'':1}"},
        {"{'properties':{'a':false}}", "{'a':1}", "args: /a: nothing is allowed here"},
    };
    CHECK_ROWS(rows);
}

static void test_schemas_of_schemas(void **state)
{
    static const struct row rows[] = {
        {"{'allOf':[{'minimum':1},{'maximum':3}]}", "2"},
        {"{'allOf':[{'minimum':1},{'maximum':3}]}", "4", "args: must be <= 3, is 4"},
        {"{'anyOf':[{'type':'string'},{'minimum':3}]}", "3"},
        {"{'anyOf':[{'type':'string'},{'minimum':3}]}", "2",
         "args: matches none of the 2 schemas of anyOf; number 2 says: must be >= 3, is 2"},
        {"{'anyOf':[{'type':'string'},{'type':['integer','null']}]}", "true",
         "args: must be of type null, integer or string, is true"},
        {"{'anyOf':[{'minimum':3}]}", "2", "args: must be >= 3, is 2"},
        {"{'anyOf':[{'type':'null'},{'type':'object','properties':{'a':{'maximum':1}}}]}",
         "{'a':2}",
         "args: matches none of the 2 schemas of anyOf; number 2 says: /a: must be <= 1, is 2"},
        {"{'oneOf':[{'minimum':3},{'maximum':1}]}", "3"},
        {"{'oneOf':[{'minimum':3},{'maximum':1}]}", "2",
         "args: matches none of the 2 schemas of oneOf; number 1 says: must be >= 3, is 2"},
        {"{'oneOf':[{'minimum':3},{'maximum':5}]}", "4",
         "args: matches more than one of the 2 schemas of oneOf"},
        {"{'not':{'type':'string'}}", "1"},
        {"{'not':{'type':'string'}}", "'a'", "args: must not match the schema of 'not', is 'a'"},
        {"{'not':{'not':{'type':'string'}}}", "'a'"},
        {"{'not':{}}", "1", "args: must not match the schema of 'not', is 1"},
        {"{'if':{'type':'string'},'then':{'minLength':2},'else':{'minimum':5}}", "'ab'"},
        {"{'if':{'type':'string'},'then':{'minLength':2},'else':{'minimum':5}}", "'a'",
         "args: must have at least 2 characters, has 1"},
        {"{'if':{'type':'string'},'then':{'minLength':2},'else':{'minimum':5}}", "4",
         "args: must be >= 5, is 4"},
        {"{'if':{'type':'string'},'then':false}", "4"},
        {"{'if':{'type':'string'},'else':false}", "4", "args: nothing is allowed here"},
    };
    CHECK_ROWS(rows);
}

static void test_references(void **state)
{
    static const char tree[] = "{'properties':{'v':{'type':'integer'},'next':{'$ref':'#'}},"
                               "'additionalProperties':false}";
    static const struct row rows[] = {
        {"{'$ref':'#/$defs/x','$defs':{'x':{'type':'null'}}}", "null"},
        {"{'$ref':'#/$defs/x','$defs':{'x':{'type':'null'}}}", "1",
         "args: must be of type null, is 1"},
        {"{'$ref':'#/definitions/x','definitions':{'x':{'type':'null'}}}", "1",
         "args: must be of type null, is 1"},
        {"{'$ref':'#/$defs/a~1b~0c','$defs':{'a/b~c':false}}", "1",
         "args: nothing is allowed here"},
        {"{'$ref':'#/$defs/a%20b%25','$defs':{'a b%':false}}", "1",
         "args: nothing is allowed here"},
        {"{'$ref':'#/%24defs/%C3%A9','$defs':{'é':false}}", "1", "args: nothing is allowed here"},
        {"{'$ref':'#/$defs/','$defs':{'':false}}", "1", "args: nothing is allowed here"},
        {"{'$ref':'#/allOf/1','allOf':[true,{'maximum':1}]}", "2", "args: must be <= 1, is 2"},
        {"{'$ref':'#/$defs/x','minimum':5,'$defs':{'x':{'maximum':9}}}", "4",
         "args: must be >= 5, is 4"},
        {"{'properties':{'a':{'type':'null'},'b':{'$ref':'#/properties/a'}}}", "{'b':1}",
         "args: /b: must be of type null, is 1"},
        {tree, "{'v':1,'next':{'v':2,'next':{}}}"},
        {tree, "{'v':1,'next':{'v':2,'next':{'x':1}}}",
         "args: /next/next/x: no such property (there are: v, next)"},
        {"{'$defs':{'n':{'anyOf':[{'type':'null'},{'type':'array','items':{'$ref':'#/$defs/n'}}]}},"
         "'$ref':'#/$defs/n'}",
         "[[null,[]],null]"},
        {"{'$defs':{'a':{'properties':{'b':{'$ref':'#/$defs/b'}}},"
         "'b':{'properties':{'a':{'$ref':'#/$defs/a'}},'required':['a']}},'$ref':'#/$defs/a'}",
         "{'b':{'a':{'b':{}}}}", "args: /b/a/b: required property 'a' is missing"},
    };
    CHECK_ROWS(rows);
}

static void test_what_has_no_effect(void **state)
{
    static const struct row rows[] = {
        {"{'title':1,'description':2,'default':3,'examples':4,'$schema':'http://json-schema.org/"
         "draft-07/schema#','$id':'urn:x','$comment':5,'format':'ipv4','deprecated':true,"
         "'readOnly':1,'writeOnly':1,'contentEncoding':1,'contentMediaType':1,'x-any':{'y':1}}",
         "'no address'"},
        {"{'minimum':1,'minLength':5,'minItems':5,'minProperties':5}", "true"},
    };
    CHECK_ROWS(rows);
}

static void test_malformed_schemas(void **state)
{
    static const struct row rows[] = {
        {"1", "1", "tool: is not a schema (an object, true or false)"},
        {"[]", "1", "tool: is not a schema (an object, true or false)"},
        {"{'properties':{'a':null}}", "1",
         "tool: /properties/a: is not a schema (an object, true or false)"},
        {"{'type':'int'}", "1",
         "tool: type: must be null, boolean, integer, number, string, array or object, or an array "
         "of these"},
        {"{'type':[]}", "1", "tool: type: must not be empty"},
        {"{'type':['null','null']}", "1", "tool: type: has a type twice"},
        {"{'enum':1}", "1", "tool: enum: must be an array with at least one value"},
        {"{'enum':[]}", "1", "tool: enum: must be an array with at least one value"},
        {"{'properties':[]}", "1", "tool: properties: must be an object of schemas"},
        {"{'properties':{'a':{'minimum':'1'}}}", "1",
         "tool: /properties/a: minimum: must be a number"},
        {"{'exclusiveMinimum':true}", "1", "tool: exclusiveMinimum: must be a number"},
        {"{'maximum':1e-500}", "1", "tool: maximum: has too many digits"},
        {"{'multipleOf':0}", "1", "tool: multipleOf: must be above 0"},
        {"{'multipleOf':-1}", "1", "tool: multipleOf: must be above 0"},
        {"{'multipleOf':0.1234567890123456789012345678901}", "1",
         "tool: multipleOf: has more than 30 digits"},
        {"{'minLength':-1}", "1", "tool: minLength: must be an integer of at least 0"},
        {"{'maxItems':1.5}", "1", "tool: maxItems: must be an integer of at least 0"},
        {"{'maxProperties':'1'}", "1", "tool: maxProperties: must be an integer of at least 0"},
        {"{'required':true}", "1", "tool: required: must be an array of strings"},
        {"{'required':[1]}", "1", "tool: required: must be an array of strings"},
        {"{'required':['a','a']}", "1", "tool: required: has a name twice"},
        {"{'dependentRequired':[]}", "1",
         "tool: dependentRequired: must be an object of arrays of strings"},
        {"{'dependentRequired':{'a':'b'}}", "1",
         "tool: dependentRequired: must be an array of strings"},
        {"{'uniqueItems':1}", "1", "tool: uniqueItems: must be true or false"},
        {"{'allOf':[]}", "1", "tool: allOf: must be an array with at least one schema"},
        {"{'anyOf':{}}", "1", "tool: anyOf: must be an array with at least one schema"},
        {"{'oneOf':[1]}", "1", "tool: /oneOf/0: is not a schema (an object, true or false)"},
        {"{'items':[{}]}", "1",
         "tool: items: an array is the form of older drafts; use prefixItems"},
        {"{'additionalItems':false}", "1",
         "tool: additionalItems: not supported; use items with prefixItems"},
        {"{'dependencies':{}}", "1", "tool: dependencies: not supported; use dependentRequired"},
        {"{'$defs':[]}", "1", "tool: $defs: must be an object of schemas"},
        {"{'$defs':{'a':{'type':1}}}", "1",
         "tool: /$defs/a: type: must be null, boolean, integer, number, string, array or object, "
         "or "
         "an array of these"},
        {"{'$dynamicRef':'#'}", "1", "tool: $dynamicRef: no such keyword, or not supported"},
        {"{'$anchor':'a'}", "1", "tool: $anchor: no such keyword, or not supported"},
        {"{'unevaluatedProperties':false}", "1",
         "tool: unevaluatedProperties: no such keyword, or not supported"},
        {"{'unevaluatedItems':false}", "1",
         "tool: unevaluatedItems: no such keyword, or not supported"},
        {"{'dependentSchemas':{}}", "1",
         "tool: dependentSchemas: no such keyword, or not supported"},
        {"{'maxlength':1}", "1", "tool: maxlength: no such keyword, or not supported"},
        {"{'':1}", "1", "tool: : no such keyword, or not supported"},
        {"{'not':{'$id':'x'}}", "1", "tool: /not: $id: is supported at the root only"},
        {"{'then':{}}", "1", "tool: then: without if"},
        {"{'else':{}}", "1", "tool: else: without if"},
        {"{'if':{}}", "1", "tool: if: without then and else"},
        {"{'minContains':1}", "1", "tool: minContains: without contains"},
        {"{'maxContains':1}", "1", "tool: maxContains: without contains"},
        {"{'properties':{'a':{'items':{'then':{}}}}}", "1",
         "tool: /properties/a/items: then: without if"},
    };
    CHECK_ROWS(rows);
}

static void test_malformed_references(void **state)
{
    static const struct row rows[] = {
        {"{'$ref':1}", "1", "tool: $ref: must be a string"},
        {"{'$ref':'other.json'}", "1",
         "tool: $ref: 'other.json' is not a place in this schema, such as '#/$defs/name'"},
        {"{'$ref':'#name'}", "1",
         "tool: $ref: '#name' is not a place in this schema, such as '#/$defs/name'"},
        {"{'$ref':''}", "1",
         "tool: $ref: '' is not a place in this schema, such as '#/$defs/name'"},
        {"{'$ref':'#/$defs/x'}", "1", "tool: $ref: '#/$defs/x' leads nowhere"},
        {"{'$ref':'#/$defs/%4','$defs':{}}", "1", "tool: $ref: '#/$defs/%4' leads nowhere"},
        {"{'$ref':'#/$defs/%00','$defs':{}}", "1", "tool: $ref: '#/$defs/%00' leads nowhere"},
        {"{'$ref':'#/$defs/~2','$defs':{'~2':true}}", "1",
         "tool: $ref: '#/$defs/~2' leads nowhere"},
        {"{'$ref':'#/allOf/01','allOf':[true,true]}", "1",
         "tool: $ref: '#/allOf/01' leads nowhere"},
        {"{'$ref':'#/allOf/-','allOf':[true,true]}", "1", "tool: $ref: '#/allOf/-' leads nowhere"},
        {"{'$ref':'#/$defs','$defs':{'x':{}}}", "1",
         "tool: $ref: '#/$defs' is not the place of a schema"},
        {"{'$ref':'#/default','default':{}}", "1",
         "tool: $ref: '#/default' is not the place of a schema"},
        {"{'$ref':'#'}", "1", "tool: a $ref leads back here, for the same value"},
        {"{'$defs':{'a':{'$ref':'#/$defs/b'},'b':{'anyOf':[{'$ref':'#/$defs/a'}]}}}", "1",
         "tool: /$defs/b/anyOf/0: a $ref leads back here, for the same value"},
        {"{'not':{'$ref':'#'}}", "1", "tool: /not: a $ref leads back here, for the same value"},
    };
    CHECK_ROWS(rows);
}

static void test_review_f2_malformed_patterns(void **state)
{
#define REFUSED(pattern, why)                                                                      \
    {                                                                                              \
        "{'pattern':'" pattern "'}", "''", why                                                     \
    }
    static const struct row rows[] = {
        REFUSED("(", "missing closing parenthesis"),
        REFUSED("a)", "unmatched closing parenthesis"),
        REFUSED("[a", "missing ]"),
        REFUSED("[b-a]", "range out of order in character class"),
        REFUSED("*a", "quantifier does not follow a repeatable item"),
        REFUSED("a**", "*: nothing to repeat"),
        REFUSED("a++", "+: nothing to repeat"),
        REFUSED("a{2}{3}", "{: nothing to repeat"),
        REFUSED("a{2,1}", "numbers out of order in {} quantifier"),
        REFUSED("a{1001}", "repeated more than 1000 times"),
        REFUSED("a{1,99999999999999999999}", "repeated more than 1000 times"),
        REFUSED("(?i)a", "(?i: no such group in ECMAScript"),
        REFUSED("(?>a)", "(?>: no such group in ECMAScript"),
        REFUSED("(?R)", "(?R: no such group in ECMAScript"),
        REFUSED("(*LIMIT_MATCH=9)a", "*: nothing to repeat"),
        REFUSED("\\\\Aa", "\\A: no such escape in ECMAScript"),
        REFUSED("a\\\\z", "\\z: no such escape in ECMAScript"),
        REFUSED("\\\\Qa", "\\Q: no such escape in ECMAScript"),
        REFUSED("[\\\\B]", "\\B: no such escape in ECMAScript"),
        REFUSED("[\\\\1]", "\\1: no such escape in ECMAScript"),
        REFUSED("\\\\1", "reference to non-existent subpattern"),
        REFUSED("\\\\08", "\\0: invalid escape"),
        REFUSED("\\\\xg1", "\\x: invalid escape"),
        REFUSED("\\\\ud800", "\\u: invalid escape"),
        REFUSED("\\\\u{110000}", "\\u: invalid escape"),
        REFUSED("\\\\u12", "\\u: invalid escape"),
        REFUSED("\\\\c1", "\\c: a letter expected"),
        REFUSED("\\\\pL", "\\p: a name in braces expected"),
        REFUSED("\\\\p{^L}", "\\p: a name in braces expected"),
        REFUSED("\\\\p{Nonsense}", "unknown property after \\P or \\p"),
        REFUSED("a\\\\", "\\ at the end"),
        REFUSED("(?<=a*)b", "lookbehind assertion is not"), /* of fixed, or limited, length */
    };
#undef REFUSED
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct brig_error err;
        struct jsonr *root = read_pair(rows[i].schema, rows[i].value);
        assert_int_equal(check_pair(root, &err), -EINVAL);
        assert_contains(err.text, "tool: pattern: \"");
        assert_contains(err.text, "\" is not a regular expression of ECMAScript: ");
        assert_contains(err.text, rows[i].message);
        jsonr_free(root);
    }
    struct row members = {"{'patternProperties':{'(':{}}}", "1",
                          "tool: patternProperties: '(' is not a regular expression of ECMAScript: "
                          "missing closing parenthesis"};
    check_row(&members);
}

/* ---- hostile ones ---------------------------------------------------------------------------- */

/* `count` times `part` between two ends; freed by the caller. */
static char *repeat(const char *begin, const char *part, size_t count, const char *middle,
                    const char *other, const char *end)
{
    size_t size =
        strlen(begin) + count * (strlen(part) + strlen(other)) + strlen(middle) + strlen(end) + 1;
    char *text = malloc(size), *at = text;
    assert_non_null(text);
    at = stpcpy(at, begin);
    for (size_t i = 0; i < count; i++)
        at = stpcpy(at, part);
    at = stpcpy(at, middle);
    for (size_t i = 0; i < count; i++)
        at = stpcpy(at, other);
    stpcpy(at, end);
    return text;
}

static void check_hostile(const char *schema, const char *value, const char *message)
{
    struct brig_error err;
    struct timespec from, to;
    struct jsonr *root = read_pair(schema, value);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    int ret = check_pair(root, &err);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    jsonr_free(root);
    assert_int_equal(ret, message ? -EINVAL : 0);
    if (message)
        assert_contains(err.text, message);
    assert_true(to.tv_sec - from.tv_sec < 20); /* well below a second without sanitizers */
}

static void test_depth_is_bounded(void **state)
{
    static const char nested[] = "{'items':{'$ref':'#'}}";
    char *good = repeat("", "[", 128, "", "]", ""), *deep = repeat("", "[", 129, "", "]", "");
    check_hostile(nested, good, NULL);
    check_hostile(nested, deep, "args: nested deeper than 128");
    check_hostile("true", deep, "args: nested deeper than 128");
    free(good);
    free(deep);
    deep = repeat("", "[", 2000, "", "]", "");
    check_hostile("{'const':1}", deep, "args: nested deeper than 128");
    free(deep);
    good = repeat("", "{'not':", 63, "{}", "}", "");
    deep = repeat("", "{'not':", 64, "{}", "}", "");
    check_hostile(good, "1", "args: must not match");
    check_hostile(deep, "1", "schemas are nested deeper than 64");
    free(good);
    free(deep);
    deep = repeat("", "{'not':", 1900, "{}", "}", "");
    check_hostile(deep, "1", "schemas are nested deeper than 64");
    free(deep);
    good = repeat("{'items':{'$ref':'#'},'allOf':[", "{'allOf':[", 12, "{}", "]}", "]}");
    deep = repeat("", "[", 128, "", "]", "");
    check_hostile(good, deep, NULL);
    free(good);
    good = repeat("{", "'allOf':[{", 40, "'items':{'$ref':'#'}", "}]", "}");
    check_hostile(good, deep, "nested too deep, together with its schema");
    free(good);
    free(deep);
}

static void test_the_number_of_schemas_is_bounded(void **state)
{
    char *good = repeat("{'prefixItems':[true", ",true", 9998, "]}", "", "");
    char *many = repeat("{'prefixItems':[true", ",true", 9999, "]}", "", "");
    check_hostile(good, "[]", NULL);
    check_hostile(many, "[]", "more than 10000 schemas in one");
    free(good);
    free(many);
}

static void test_chains_of_references_are_bounded(void **state)
{
    char *text = malloc(65536), *at = text;
    at += sprintf(at, "{'$ref':'#/$defs/d0','$defs':{");
    for (int i = 0; i < 500; i++)
        at += sprintf(at, "'d%d':{'$ref':'#/$defs/d%d'},", i, i + 1);
    sprintf(at, "'d500':{}}}");
    check_hostile(text, "1", "more than 64 schemas for one value");
    free(text);
}

static void test_work_is_bounded(void **state)
{
    /* Two alternatives at each level, each of which is tried: 2 to the power of 30. */
    static const char twice[] = "{'properties':{'a':{'anyOf':[{'$ref':'#'},{'$ref':'#'}]}},"
                                "'additionalProperties':false}";
    char *value = repeat("", "{'a':", 30, "{'b':1}", "}", "");
    check_hostile(twice, value, "args: too much work to check it");
    free(value);
    value = repeat("[0", ",{'a':1,'b':[2]}", 100000, "", "", "]");
    check_hostile("{'uniqueItems':true}", value, "must not have equal elements");
    free(value);
    /* Members in an order of their own have to be looked for. */
    char *members = malloc(1 << 20), *at = members, *other = malloc(1 << 20), *to = other;
    for (int i = 0; i < 20000; i++) {
        at += sprintf(at, "%c'k%d':1", i ? ',' : '{', i);
        to += sprintf(to, "%c'k%d':1", i ? ',' : '{', 19999 - i);
    }
    strcpy(at, "}");
    strcpy(to, "}");
    char *schema = repeat("{'const':", "", 1, members, "", "}");
    check_hostile(schema, other, "args: too much work to check it");
    check_hostile(schema, members, NULL);
    free(schema);
    free(members);
    free(other);
    value = repeat("[0", ",1", 999998, "", "", "]");
    check_hostile("{'items':{'type':'integer'}}", value, NULL);
    free(value);
    value = repeat("[0", ",1", 1000001, "", "", "]");
    check_hostile("{'items':{'type':'integer'}}", value, "args: too much work to check it");
    check_hostile("{'not':{'items':{'type':'integer'}}}", value, "too much work");
    check_hostile("{'type':'object'}", value, "args: must be of type object");
    free(value);
}

static void test_long_numbers(void **state)
{
    char *value = repeat("0.", "7", 1000000, "", "", "7");
    check_hostile("{'minimum':0.7,'type':'number'}", value, NULL);
    check_hostile("{'type':'integer'}", value, "must be of type integer, is 0.777");
    free(value);
    value = repeat("-0.", "7", 5000000, "", "", "7");
    check_hostile("{'multipleOf':0.7}", value, "too much work");
    free(value);
}

static void test_work_of_patterns_is_bounded(void **state)
{
    static const char *const schemas[] = {
        "{'pattern':'^(a+)+$'}",
        "{'pattern':'(a*)*[bc]'}",
        "{'pattern':'(a|aa)+$'}",
        "{'pattern':'(.*)(.*)(.*)(.*)(.*)[xy]'}",
        "{'pattern':'a[^b]*[cd]'}",
        "{'not':{'pattern':'(a|a?)+[bc]'}}",
        "{'pattern':'(?=(a+))a*[bc]\\\\1'}",
        "{'pattern':'a.{0,1000}[cd]'}",
    };
    char *value = repeat("'", "a", 200000, "!", "", "'");
    for (size_t i = 0; i < COUNT(schemas); i++)
        check_hostile(schemas[i], value, "args: too much work to check it");
    check_hostile("{'pattern':'^[a-z]+!$'}", value, NULL);
    free(value);
    value = repeat("'", "a", 20000, "!", "", "'");
    check_hostile("{'pattern':'^(?:[a-z]|!)+$'}", value, NULL);
    free(value);
    /* The names of members, too. */
    value = repeat("{'", "a", 50000, "!", "", "':1}");
    check_hostile("{'patternProperties':{'^(a+)+$':{}}}", value, "too much work");
    check_hostile("{'propertyNames':{'pattern':'^(a+)+$'}}", value, "too much work");
    free(value);
    /* Together, although each alone would do. */
    value = repeat("['x'", ",'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'",
                   20000, "", "", "]");
    check_hostile("{'items':{'not':{'pattern':'a[^b]*[cd]'}}}", value, "too much work");
    free(value);
}

static void test_messages_are_short_and_printable(void **state)
{
    char *name = repeat("{'", "\\u001b[2J~/\\ud83d\\ude00", 1000, "':{'", "b/", "':'\\u009b\\n'}}");
    check_hostile("{'additionalProperties':{'additionalProperties':false}}", name,
                  "no such property (there are: none)");
    check_hostile("{'additionalProperties':{'additionalProperties':{'pattern':'^x'}}}", name,
                  "must match the pattern \"^x\", is \"\\xc2\\x9b\\x0a\"");
    check_hostile("{'additionalProperties':{'maxProperties':0}}", name,
                  "must have at most 0 properties, has 1");
    free(name);
    name = repeat("'", "\\ud83d\\ude00", 1000, "", "", "'");
    check_hostile("{'type':'null'}", name, "...");
    check_hostile("{'maxLength':999}", name, "must have at most 999 characters, has 1000");
    char *list = repeat("{'enum':[0", ",'some word or other'", 1000, "", "", "]}");
    check_hostile(list, name, "must be one of 0, \"some word or other\", ");
    free(list);
    list = repeat("{'pattern':", "", 1, name, "", "}");
    check_hostile(list, "'x'", "must match the pattern \"");
    free(list);
    free(name);
    name = repeat("{'", "k", 1000, "':1}", "", "");
    check_hostile(name, "1", "no such keyword");
    free(name);
    name = repeat("{'$ref':'#/", "k", 5000, "'}", "", "");
    check_hostile(name, "1", "leads nowhere");
    free(name);
}

static void test_a_part_of_a_value_has_pointers_of_its_own(void **state)
{
    struct brig_error err;
    struct schema *schema;
    struct jsonr *root = read_pair("{'items':{'maximum':1}}", "{'x':{'y':[1,2]}}");
    const struct jsonr *x = jsonr_get(jsonr_get(root, "value"), "x");
    assert_int_equal(schema_new(&schema, jsonr_get(root, "schema"), "tool", NULL), 0);
    assert_int_equal(schema_check(schema, jsonr_get(x, "y"), "args", &err), -EINVAL);
    assert_string_equal(err.text, "args: /1: must be <= 1, is 2");
    assert_int_equal(schema_check(schema, x, "args", NULL), 0);
    assert_int_equal(schema_check(schema, jsonr_get(x, "y"), "args", NULL), -EINVAL);
    schema_free(schema);
    jsonr_free(root);
    schema_free(NULL);
}

static void test_every_allocation_may_fail(void **state)
{
    struct brig_error err;
    struct jsonr *root =
        read_pair("{'properties':{'a':{'pattern':'^(a|b)+$'},'b':{'uniqueItems':true}},"
                  "'patternProperties':{'^x':{'$ref':'#/$defs/x'}},'prefixItems':[true],"
                  "'$defs':{'x':{'anyOf':[{'allOf':[true]},{'oneOf':[false]}]}}}",
                  "{'a':'abab','b':[1,2,3],'x1':2}");
    int ret = -ENOMEM;
    unsigned long n = 0;
    while (ret == -ENOMEM && n < 10000) {
        torture.count = 0;
        torture.fail_at = ++n;
        torture.armed = true;
        ret = check_pair(root, &err);
        torture.armed = false;
        if (ret)
            assert_string_equal(err.text, "out of memory");
    }
    assert_int_equal(ret, 0);
    assert_in_range(n, 20, 1000);
    jsonr_free(root);
}

/* Against the arithmetic of the CPU, where that is exact. */
static void test_decimals_agree_with_integers(void **state)
{
    static const int shifts[] = {0, 1, 3, 17};
    for (int a = -30; a <= 30; a++) {
        for (int b = -30; b <= 30; b++) {
            for (size_t i = 0; i < COUNT(shifts); i++) {
                char x[32], y[32];
                snprintf(x, sizeof x, "%d%.*se-%d", a, shifts[i], "00000000000000000", shifts[i]);
                snprintf(y, sizeof y, "%d", b);
                struct decimal p = decimal_read(x), q = decimal_read(y);
                int order = decimal_compare(&p, &q);
                assert_int_equal((order > 0) - (order < 0), (a > b) - (a < b));
                assert_true((decimal_hash(&p) == decimal_hash(&q)) == (a == b));
                assert_true(decimal_is_integer(&p));
                if (b > 0)
                    assert_int_equal(decimal_is_multiple(&p, &q), a % b == 0);
                if (a >= 0)
                    assert_int_equal(decimal_size(&p), a);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_enum_and_const),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_objects),
        cmocka_unit_test(test_schemas_of_schemas),
        cmocka_unit_test(test_references),
        cmocka_unit_test(test_what_has_no_effect),
        cmocka_unit_test(test_malformed_schemas),
        cmocka_unit_test(test_malformed_references),
        cmocka_unit_test(test_review_f2_malformed_patterns),
        cmocka_unit_test(test_depth_is_bounded),
        cmocka_unit_test(test_the_number_of_schemas_is_bounded),
        cmocka_unit_test(test_chains_of_references_are_bounded),
        cmocka_unit_test(test_work_is_bounded),
        cmocka_unit_test(test_long_numbers),
        cmocka_unit_test(test_work_of_patterns_is_bounded),
        cmocka_unit_test(test_messages_are_short_and_printable),
        cmocka_unit_test(test_a_part_of_a_value_has_pointers_of_its_own),
        cmocka_unit_test(test_every_allocation_may_fail),
        cmocka_unit_test(test_decimals_agree_with_integers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
