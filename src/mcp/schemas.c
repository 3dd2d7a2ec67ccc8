/* SPDX-License-Identifier: MIT */
/* Schemas of the built-in tools. */
#include "schemas.h"

/* The arguments that run_command and run_code share. */
#define RUN                                                                                        \
    "'workdir':{'type':'string',"                                                                  \
    "'description':'directory to run in: the work directory, or one inside of it'},"               \
    "'stdin':{'type':'string','description':'the input on stdin; empty by default'},"              \
    "'stdin_open':{'type':'boolean','description':'keep stdin open, for write_stdin'},"            \
    "'timeout':{'type':['number','string'],"                                                       \
    "'description':'end the run after so many seconds, or 90s, 5m; up to the maximum of the "      \
    "operator'},"                                                                                  \
    "'env':{'type':'object','additionalProperties':{'type':'string'},"                             \
    "'description':'environment variables'},"                                                      \
    "'yield_seconds':{'type':'number','minimum':0,"                                                \
    "'description':'answer with status running if the run takes longer'}"

#define RUN_ID "'run_id':{'type':'string','description':'from an answer with status running'}"

#define SINCE                                                                                      \
    "'since':{'type':'integer','minimum':0,"                                                       \
    "'description':'the sequence of an earlier answer: only newer output is returned; "            \
    "default: all that is kept'},"                                                                 \
    "'wait_seconds':{'type':'number','minimum':0,"                                                 \
    "'description':'seconds to wait for the end of the run'}"

const char schema_command[] =
    "{'type':'object','properties':{"
    "'command':{'type':['string','array'],'items':{'type':'string'},'minItems':1,"
    "'description':'a string is run by /bin/sh -c; an array of strings is executed directly'}," RUN
    "},'required':['command'],'additionalProperties':false}";

const char schema_code[] = "{'type':'object','properties':{"
                           "'language':{'type':'string','enum':[%s]},"
                           "'code':{'type':'string','description':'the source code'}," RUN
                           "},'required':['language','code'],'additionalProperties':false}";

const char schema_poll[] = "{'type':'object','properties':{" RUN_ID "," SINCE
                           "},'required':['run_id'],'additionalProperties':false}";

const char schema_write[] =
    "{'type':'object','properties':{" RUN_ID ","
    "'data':{'type':'string','description':'the bytes to send'},"
    "'close':{'type':'boolean','description':'close stdin afterwards'}," SINCE
    "},'required':['run_id','data'],'additionalProperties':false}";

const char schema_cancel[] = "{'type':'object','properties':{" RUN_ID
                             "},'required':['run_id'],'additionalProperties':false}";

const char schema_output[] =
    "{'type':'object','properties':{"
    "'status':{'type':'string','enum':['running','exited','signaled','timeout','memory_limit',"
    "'pids_limit','output_limit','cpu_limit','cancelled','error']},"
    "'run_id':{'type':'string','description':'for poll_run, write_stdin and cancel_run'},"
    "'exit_code':{'type':['integer','null'],'description':'the exit code of the command, if it "
    "exited'},"
    "'signal':{'type':['integer','null'],'description':'the signal that ended it'},"
    "'notes':{'type':['string','null'],'description':'why it ended, unless it simply exited'},"
    "'hints':{'type':'array','items':{'type':'string'},"
    "'description':'possible causes of a failure, if any are known'},"
    "'stdout':{'type':'string','description':'the output from the offset since on'},"
    "'stdout_encoding':{'type':'string','enum':['utf-8','base64'],"
    "'description':'base64: the bytes are not UTF-8'},"
    "'stderr':{'type':'string','description':'the output from the offset since on'},"
    "'stderr_encoding':{'type':'string','enum':['utf-8','base64']},"
    "'sequence':{'type':'integer','minimum':0,"
    "'description':'the offset of the end of this output, for since'},"
    "'dropped_bytes':{'type':'integer','minimum':0,"
    "'description':'the size of older output that was dropped'},"
    "'duration_seconds':{'type':'number','minimum':0},"
    "'memory_peak_bytes':{'type':['integer','null']},"
    "'secrets_hidden':{'type':'integer','minimum':0,"
    "'description':'number of secrets hidden in the output'},"
    "'isolation':{'type':'string','description':'cell, or degraded'},"
    "'tool':{'type':'string','description':'the name of the tool, for a tool of the operator'},"
    "'output':{'description':'the output of the tool'},"
    "'error':{'type':['string','null'],'description':'the failure of the tool'}},"
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
