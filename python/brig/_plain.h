/* SPDX-License-Identifier: MIT */
/* Plain calls: a function of a module, with arguments and a value of plain types. Most calls are
 * such. The time of a short call is dominated by the memory that it touches after a pause, and this
 * code touches little; all other calls are handled by _function.py and _value.py.
 *
 * job         head, module, NUL, name, NUL, arguments, keywords
 * arguments   count, values
 * keywords    count, a text and a value each
 * value       a letter and its data
 * answer      SUCCESS (_guest.py), the value as JSON, a closing brace
 *
 * Numbers have the byte order of the machine, which both sides share. */
#ifndef PYTHON_PLAIN_H
#define PYTHON_PLAIN_H

#define PLAIN_NONE  'N'
#define PLAIN_TRUE  'T'
#define PLAIN_FALSE 'F'
#define PLAIN_INT   'i' /* int64_t */
#define PLAIN_FLOAT 'd' /* double */
#define PLAIN_TEXT  's' /* uint32_t, and as many bytes of UTF-8 */
#define PLAIN_BYTES 'b' /* uint32_t, and as many bytes */

#define PLAIN_ANSWER_MAX 4096

/* True if a byte of a text stands for itself in JSON, and for one character. */
static inline bool plain_is_simple(char c)
{
    return c >= ' ' && c <= '~' && c != '"' && c != '\\';
}

#endif
