/* Tests what describes a launch. */
#ifndef DESCRIBE_H
#define DESCRIBE_H
void describe(void);
#endif
