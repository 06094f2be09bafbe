/* What sources of tools expect of the headers, in either order with libi.h. C and C++. */
#ifdef FIRST
#include <libi.h>
#endif
#include <lmon_api/lmon_api_std.h>
#include <lmon_api/lmon_be.h>
#include <lmon_api/lmon_fe.h>
#include <lmon_api/lmon_proctab.h>
#ifdef LAST
#include <libi.h>
#endif

static int hear(const char *format, va_list arguments) {
  (void)arguments;
  return format[0];
}

int main(void) {
  MPIR_PROCDESC_EXT entry;
  lmon_daemon_env_t variable;
  rm_catalogue_e manager = RC_none;
  lmon_rc_e code = LMON_fe_regErrorCB(hear);
  variable.envName = variable.envValue = 0;
  variable.next = 0;
  entry.pd.host_name = entry.pd.executable_name = variable.envName;
  entry.pd.pid = entry.mpirank = entry.cnodeid = 0;
  if (code != LMON_OK || sizeof entry.pd != 24 || entry.pd.pid != entry.mpirank || manager != 13)
    return 1;
  if (LMON_NO != 20 || LMON_NOTIMPL != 18 || LMON_VERSION != 900100 || LMON_MAX_USRPAYLOAD != 4 << 20)
    return 2;
  return LMON_be_regErrorCB(hear) == LMON_OK ? 0 : 3;
}
