/* Connects to the socket named by its argument and waits until the other end closes it. */
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int main(int argc, char **argv)
{
  struct sockaddr_un address = {AF_UNIX, {0}};
  char byte;
  int connection = socket(AF_UNIX, SOCK_STREAM, 0);
  if (argc != 2 || strlen(argv[1]) >= sizeof address.sun_path) return 1;
  strcpy(address.sun_path, argv[1]);
  if (connect(connection, (struct sockaddr *)&address, sizeof address)) return 1;
  return read(connection, &byte, 1) != 0;
}
