/* Schemas. */
#include "schemas.h"

/* What a run is started with, whatever it is. */
#define RUN                                                                                        \
    "'workdir':{'type':'string',"                                                                  \
    "'description':'folder to run in: the work folder, or one inside of it'},"                     \
    "'stdin':{'type':'string','description':'what it reads from stdin; else that is empty'},"      \
    "'stdin_open':{'type':'boolean','description':'keep stdin open, for write_stdin'},"            \
    "'timeout':{'type':['number','string'],"                                                       \
    "'description':'end it after so many seconds, or 90s, 5m; no more than the operator allows'}," \
    "'env':{'type':'object','additionalProperties':{'type':'string'},"                             \
    "'description':'variables of its environment'},"                                               \
    "'yield_seconds':{'type':'number','minimum':0,"                                                \
    "'description':'answer with status running after this time, if it goes on'}"

#define RUN_ID "'run_id':{'type':'string','description':'from an answer with status running'}"

#define SINCE                                                                                      \
    "'since':{'type':'integer','minimum':0,'description':'the sequence of the last answer: only "  \
    "newer output is given; else all that is kept'},"                                              \
    "'wait_seconds':{'type':'number','minimum':0,'description':'wait so long for it to end'}"

const char schema_command[] =
    "{'type':'object','properties':{"
    "'command':{'type':['string','array'],'items':{'type':'string'},'minItems':1,"
    "'description':'a string is run by /bin/sh -c; an array of strings is executed as it is'}," RUN
    "},'required':['command'],'additionalProperties':false}";

const char schema_code[] = "{'type':'object','properties':{"
                           "'language':{'type':'string','enum':[%s]},"
                           "'code':{'type':'string','description':'the program'}," RUN
                           "},'required':['language','code'],'additionalProperties':false}";

const char schema_poll[] = "{'type':'object','properties':{" RUN_ID "," SINCE
                           "},'required':['run_id'],'additionalProperties':false}";

const char schema_write[] = "{'type':'object','properties':{" RUN_ID ","
                            "'data':{'type':'string','description':'what it is to read'},"
                            "'close':{'type':'boolean','description':'close stdin after it'}," SINCE
                            "},'required':['run_id','data'],'additionalProperties':false}";

const char schema_cancel[] = "{'type':'object','properties':{" RUN_ID
                             "},'required':['run_id'],'additionalProperties':false}";

const char schema_output[] =
    "{'type':'object','properties':{"
    "'status':{'type':'string','enum':['running','exited','signaled','timeout','memory_limit',"
    "'pids_limit','output_limit','cpu_limit','cancelled','error']},"
    "'run_id':{'type':'string','description':'for poll_run, write_stdin and cancel_run'},"
    "'exit_code':{'type':['integer','null'],'description':'of the command, if it exited'},"
    "'signal':{'type':['integer','null'],'description':'that ended it'},"
    "'notes':{'type':['string','null'],'description':'why it ended, if there is more to say'},"
    "'stdout':{'type':'string','description':'since the place asked for'},"
    "'stdout_encoding':{'type':'string','enum':['utf-8','base64'],"
    "'description':'base64: the bytes are no text'},"
    "'stderr':{'type':'string','description':'since the place asked for'},"
    "'stderr_encoding':{'type':'string','enum':['utf-8','base64']},"
    "'sequence':{'type':'integer','minimum':0,"
    "'description':'the place in the output up to which this tells'},"
    "'dropped_bytes':{'type':'integer','minimum':0,"
    "'description':'older output that is not kept any more'},"
    "'duration_seconds':{'type':'number','minimum':0},"
    "'memory_peak_bytes':{'type':['integer','null']},"
    "'secrets_hidden':{'type':'integer','minimum':0,"
    "'description':'how often a secret was replaced in the output'},"
    "'isolation':{'type':'string','description':'cell, or degraded'},"
    "'tool':{'type':'string','description':'of a tool: its name'},"
    "'output':{'description':'of a tool: its output'},"
    "'error':{'type':['string','null'],'description':'of a tool: what went wrong'}},"
    "'required':['status','exit_code','signal','notes','stdout','stdout_encoding','stderr',"
    "'stderr_encoding','sequence','dropped_bytes','duration_seconds']}";

void schema_put(struct jsonw *w, const char *key, const char *schema, const char *what)
{
    struct buf json;
    buf_init(&json, 65536);
    for (const char *c = schema; *c; c++) {
        if (c[0] == '%' && c[1] == 's') {
            buf_text(&json, what);
            c++;
        } else {
            buf_add(&json, *c == '\'' ? "\"" : c, 1);
        }
    }
    if (json.failed)
        w->buf->failed = json.failed;
    else
        jsonw_raw(w, key, json.data, json.len);
    buf_done(&json);
}
