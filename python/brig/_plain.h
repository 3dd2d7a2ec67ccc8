/* Calls that need no rules: a function of a module, arguments without a structure, and a value
 * without one. Most are such. A short call takes its time by each piece of memory that it touches
 * after a pause, and there is little of that here; all else goes by _function.py and _value.py.
 *
 *     job     head, module, NUL, name, NUL, arguments, keywords
 *     arguments   their number, values        keywords   their number, a text and a value of each
 *     value   a letter, and what belongs to it
 *     answer  SUCCESS (_guest.py), the value as JSON, a brace
 *
 * Numbers are as both ends have them: they are one machine. */
#ifndef PYTHON_PLAIN_H
#define PYTHON_PLAIN_H

#define PLAIN_NONE  'N'
#define PLAIN_TRUE  'T'
#define PLAIN_FALSE 'F'
#define PLAIN_INT   'i' /* int64_t */
#define PLAIN_FLOAT 'd' /* double */
#define PLAIN_TEXT  's' /* uint32_t, so many bytes of UTF-8 */
#define PLAIN_BYTES 'b' /* uint32_t, so many bytes */

#define PLAIN_ANSWER_MAX 4096

/* Does a byte of a text stand for itself in JSON, and for one character? */
static inline bool plain_is_simple(char c)
{
    return c >= ' ' && c <= '~' && c != '"' && c != '\\';
}

#endif
