/** libi for C++14 and newer: the objects of libi.h as types that free themselves, with exceptions for
 *  failures. There is nothing to link but libi.
 *
 *      libi::member me = libi::member::init();        // empty if this program was started by hand
 *      if (me) {
 *          std::string order = me.is_master() ? me.recv(5s).str() : "";
 *          order = me.broadcast(0, order, 5s).str();
 *          me.drain(5s);
 *      } else {
 *          libi::front_end front;
 *          libi::session session = front.launch(
 *              libi::distribution(0, "./daemon").host_list("node[01-64]:2"));
 *          session.send("begin", 5s);
 *          while (auto event = front.next_event(60s)) // empty if nothing happens for 60 s
 *              if (event.kind() == LIBI_EVENT_DONE) break;
 *      }
 *
 *  Rules for all types:
 *  - A type stands for the type of libi.h with its name (front_end for libi_front), whose
 *    documentation holds. get() returns that object for functions that have no equivalent here.
 *  - Objects can be moved, not copied. An empty one (moved from, or "there is none") converts to
 *    false.
 *  - A failure is thrown as libi::error with the text of libi_last_error(). LIBI_NOT_YET and
 *    LIBI_NONE are an empty object or false. For codes instead of exceptions, call libi.h with get().
 *  - Timeouts are std::chrono::milliseconds, or convert to it without loss, as 5s. libi::forever is no
 *    limit; negative ones do not wait. Bytes are a text, or anything with data() and size().
 */

#ifndef LIBI_HPP
#define LIBI_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <libi.h>

namespace libi {

using std::chrono::milliseconds;

/** No limit to the duration of a call. */
constexpr milliseconds forever = milliseconds::max();

/** The failure of a call. */
class error : public std::runtime_error {
public:
    error(libi_result code, const char *text)
        : std::runtime_error(text && *text ? text : describe(code)), code_(code) {}
    /** One of LIBI_ERR_... */
    libi_result code() const noexcept { return code_; }

private:
    static const char *describe(libi_result code) {
        const char *text = libi_result_text(code);
        return text ? text : "an unknown code";
    }
    libi_result code_;
};

/** Bytes that a call reads. They stay the caller's. */
class bytes {
public:
    bytes() noexcept : data_(nullptr), size_(0) {}
    bytes(const void *data, std::size_t size) noexcept : data_(data), size_(size) {}
    bytes(std::nullptr_t) = delete;
    bytes(const char *text) : data_(text), size_(std::strlen(text)) {}
    /** A std::string, std::vector, std::array, std::span and so on: its elements as they are in memory. */
    template <class C, class T = std::remove_pointer_t<decltype(std::declval<const C &>().data())>,
              class = decltype(std::declval<const C &>().size()),
              class = std::enable_if_t<!std::is_same<C, bytes>::value>>
    bytes(const C &all) : data_(all.data()), size_(all.size() * sizeof(T)) {
        static_assert(std::is_trivially_copyable<T>::value,
                      "only trivially copyable elements can be sent as bytes");
    }
    const char *data() const noexcept { return static_cast<const char *>(data_); }
    std::size_t size() const noexcept { return size_; }
    std::string str() const { return size_ ? std::string(data(), size_) : std::string(); }

private:
    const void *data_;
    std::size_t size_;
};

namespace detail {

/** A negative time, as until a deadline that has passed, does not wait. In libi.h it is no limit. */
inline libi_timeout timeout_of(milliseconds time) noexcept {
    return time == forever ? LIBI_FOREVER : time.count() < 0 ? 0 : time.count();
}
inline milliseconds milliseconds_of(libi_timeout time) noexcept {
    return time < 0 ? forever : milliseconds(time);
}

/** Throws a failure. Whether the call has succeeded otherwise. */
inline bool check(libi_result result) {
    if (result == LIBI_RESULT_OK) return true;
    if (result == LIBI_NOT_YET || result == LIBI_NONE) return false;
    throw error(result, libi_last_error());
}

inline std::string string(const char *text) { return text ? text : ""; }

/** A struct that a call fills; zeros if there is none. */
template <class Info, class Call, class... Arguments> Info query(Call call, Arguments... arguments) noexcept {
    Info info;
    call(arguments..., &info, sizeof info);
    return info;
}

/** The text of a failure, empty if there is none. */
inline std::string text_of(const libi_failure *failure) {
    return failure ? string(query<libi_failure_info>(libi_failure_query, failure).text) : std::string();
}

/** The ranks of a group, or of an entry. */
template <class T, class Which> std::vector<std::uint32_t> ranks_of(
    std::size_t (*call)(const T *, Which, std::uint32_t *, std::size_t), const T *object, Which which) {
    std::vector<std::uint32_t> ranks(call(object, which, nullptr, 0));
    std::size_t count = call(object, which, ranks.data(), ranks.size());
    if (count < ranks.size()) ranks.resize(count);
    return ranks;
}

/** An object that frees itself. */
template <class T, void (*Free)(T *)> class owned {
public:
    owned() noexcept = default;
    explicit owned(T *object) noexcept : object_(object) {}
    owned(owned &&other) noexcept : object_(other.release()) {}
    owned &operator=(owned &&other) noexcept {
        if (this != &other) reset(other.release());
        return *this;
    }
    ~owned() { Free(object_); }

    /** The object of libi.h, which this one keeps. */
    T *get() const noexcept { return object_; }
    /** Passes the object on to the caller, who frees it by its function of libi.h. */
    T *release() noexcept { return std::exchange(object_, nullptr); }
    /** Frees the object, and takes another one. */
    void reset(T *object = nullptr) noexcept { Free(std::exchange(object_, object)); }
    explicit operator bool() const noexcept { return object_ != nullptr; }

protected:
    /** The object that a call passes out after these arguments. */
    template <class Made, class Object, class Call, class... Arguments>
    Made make(Call call, Arguments... arguments) const {
        Object *object = nullptr;
        libi_result result = call(object_, arguments..., &object);
        Made made(object);
        check(result);
        return made;
    }
    /** The data of a call that waits. */
    template <class Data, class Call, class... Arguments>
    Data wait_for_data(milliseconds timeout, Call call, Arguments... arguments) const {
        libi_data *all = nullptr;
        check(call(object_, arguments..., &all, timeout_of(timeout)));
        return Data(all);
    }

private:
    T *object_ = nullptr;
};

/** The LIBI_ELEMENT_... of a type. */
template <class T> struct element;
template <> struct element<std::uint8_t> : std::integral_constant<libi_element, LIBI_ELEMENT_U8> {};
template <> struct element<std::int32_t> : std::integral_constant<libi_element, LIBI_ELEMENT_I32> {};
template <> struct element<std::uint32_t> : std::integral_constant<libi_element, LIBI_ELEMENT_U32> {};
template <> struct element<std::int64_t> : std::integral_constant<libi_element, LIBI_ELEMENT_I64> {};
template <> struct element<std::uint64_t> : std::integral_constant<libi_element, LIBI_ELEMENT_U64> {};
template <> struct element<float> : std::integral_constant<libi_element, LIBI_ELEMENT_F32> {};
template <> struct element<double> : std::integral_constant<libi_element, LIBI_ELEMENT_F64> {};

/** A part for each rank, as libi.h takes them. */
struct parts {
    explicit parts(const std::vector<bytes> &all) {
        for (const bytes &part : all) {
            data.push_back(part.data());
            sizes.push_back(part.size());
        }
    }
    std::vector<const void *> data;
    std::vector<std::size_t> sizes;
};

} // namespace detail

/** Received bytes: one part, or one for each rank. Empty where none are received, as at other members
 *  than the root. */
class data : public detail::owned<libi_data, libi_data_free> {
public:
    using owned::owned;
    /** The number of parts. */
    std::size_t size() const noexcept { return libi_data_count(get()); }
    /** A part, valid as long as this object. */
    bytes operator[](std::size_t index) const noexcept {
        return bytes(libi_data_bytes(get(), index), libi_data_length(get(), index));
    }
    /** A copy of a part as text. */
    std::string str(std::size_t index = 0) const { return (*this)[index].str(); }
    /** A copy of a part as numbers. */
    template <class T> std::vector<T> numbers(std::size_t index = 0) const {
        bytes part = (*this)[index];
        std::vector<T> all(part.size() / sizeof(T));
        if (!all.empty()) std::memcpy(all.data(), part.data(), all.size() * sizeof(T));
        return all;
    }
};

/** An operation in progress, as of me.start_barrier(), or of libi_member_start_...() and pending(object). */
class pending : public detail::owned<libi_pending, libi_pending_free> {
public:
    using owned::owned;
    /** Waits until it has finished, and takes its data. After the timeout it is cancelled, and
     *  LIBI_ERR_TIMED_OUT is thrown. */
    data wait(milliseconds timeout) {
        libi_result result = libi_pending_wait(get(), detail::timeout_of(timeout));
        if (result == LIBI_NOT_YET) {
            cancel();
            throw error(LIBI_ERR_TIMED_OUT, "timed out waiting for an operation, which was cancelled");
        }
        return detail::check(result) ? take() : data();
    }
    /** Waits until it has finished; false after the timeout, and it goes on. */
    bool wait_for(milliseconds timeout) {
        return is_finished(libi_pending_wait(get(), detail::timeout_of(timeout)));
    }
    /** Whether it has finished. */
    bool poll() { return is_finished(libi_pending_poll(get())); }
    /** Its data, when it has finished. */
    data take() { return make<data, libi_data>(libi_pending_take); }
    /** The lost members without which it has finished. */
    std::vector<std::uint32_t> missing() {
        std::vector<std::uint32_t> ranks(libi_pending_missing(get(), nullptr, 0));
        libi_pending_missing(get(), ranks.data(), ranks.size());
        return ranks;
    }
    void cancel() { detail::check(libi_pending_cancel(get())); }

private:
    static bool is_finished(libi_result result) { return detail::check(result) || result == LIBI_NONE; }
};

namespace detail {

/** Functions that return the object itself, so that calls can be chained. */
template <class Self, class T, void (*Free)(T *)> class builder : public owned<T, Free> {
public:
    using owned<T, Free>::owned;

protected:
    Self &self(libi_result result) {
        check(result);
        return static_cast<Self &>(*this);
    }
};

} // namespace detail

/** A list of hosts, each with a number of processes. */
class hosts : public detail::builder<hosts, libi_hosts, libi_hosts_free> {
public:
    hosts() : builder(libi_hosts_new()) {}
    /** The hosts of a text such as "node[001-064]:8". */
    explicit hosts(const std::string &list) : hosts() { add_list(list); }
    hosts &add_list(const std::string &list) { return self(libi_hosts_add_list(get(), list.c_str())); }
    hosts &add_file_text(const std::string &text) {
        return self(libi_hosts_add_file_text(get(), text.c_str()));
    }
    /** Whether there is a job, whose hosts are appended. */
    bool add_job() { return detail::check(libi_hosts_add_job(get())); }
    hosts &add_host(const std::string &name, std::uint32_t processes = 1) {
        return self(libi_hosts_add_host(get(), name.c_str(), nullptr, 0, processes));
    }
    hosts &place(std::uint64_t processes, libi_placement placement, std::uint32_t plane = 1,
                 bool repeat = false) {
        return self(libi_hosts_place(get(), processes, placement, plane, repeat));
    }
    std::size_t size() const noexcept { return libi_hosts_count(get()); }
    std::uint64_t processes() const noexcept { return libi_hosts_processes(get()); }
    /** An entry, whose strings are valid until the list is changed; zeros if there is none. */
    libi_hosts_entry_info entry(std::size_t index) const noexcept {
        return detail::query<libi_hosts_entry_info>(libi_hosts_entry, get(), index);
    }
    std::string fold() const { return detail::string(libi_hosts_fold(get())); }
};

/** A group of equal processes of one session. */
class distribution : public detail::builder<distribution, libi_distribution, libi_distribution_free> {
public:
    distribution(std::uint32_t session, const std::string &executable)
        : builder(libi_distribution_new(session, executable.c_str())) {}
    distribution &host_list(const std::string &list) {
        return self(libi_distribution_set_host_list(get(), list.c_str()));
    }
    distribution &hosts(const libi::hosts &list) {
        return self(libi_distribution_set_hosts(get(), list.get()));
    }
    distribution &arg(const std::string &arg) { return self(libi_distribution_add_arg(get(), arg.c_str())); }
    distribution &env(const std::string &name, const std::string &value) {
        return self(libi_distribution_set_env(get(), name.c_str(), value.c_str()));
    }
    distribution &directory(const std::string &path) {
        return self(libi_distribution_set_directory(get(), path.c_str()));
    }
};

/** How a launch proceeds. */
class options : public detail::builder<options, libi_options, libi_options_free> {
public:
    options() : builder(libi_options_new()) {}
    /** 0 is all. */
    options &min_hosts(std::uint32_t hosts) { return self(libi_options_set_min_hosts(get(), hosts)); }
    options &settle(milliseconds time) {
        return self(libi_options_set_settle(get(), detail::timeout_of(time)));
    }
    options &front_end_launches(std::uint32_t launches) {
        return self(libi_options_set_front_end_launches(get(), launches));
    }
    options &spares(const hosts &list) { return self(libi_options_set_spares(get(), list.get())); }
    options &local_hosts(const hosts &list) { return self(libi_options_set_local_hosts(get(), list.get())); }
    options &deadline(milliseconds time) {
        return self(libi_options_set_deadline(get(), detail::timeout_of(time)));
    }
    options &rule(libi_rule rule, std::int64_t value) {
        return self(libi_options_set_rule(get(), rule, value));
    }
    options &rule(libi_rule rule, milliseconds value) { return this->rule(rule, value.count()); }
    options &input(bool wanted = true) { return self(libi_options_set_input(get(), wanted)); }
    options &input_to_all() { return self(libi_options_set_input_to_all(get())); }
    options &output(libi_output output, const std::string &directory = "") {
        return self(libi_options_set_output(get(), output, directory.c_str()));
    }
    options &links(libi_links links) { return self(libi_options_set_links(get(), links)); }
    options &allow_plain(bool allow = true) { return self(libi_options_set_allow_plain(get(), allow)); }
    options &front_end_limits(bool set = true) { return self(libi_options_set_front_end_limits(get(), set)); }
    options &on_loss(libi_on_loss what) { return self(libi_options_set_on_loss(get(), what)); }
    options &restarts(std::uint32_t restarts) { return self(libi_options_set_restarts(get(), restarts)); }
    options &replace_master(bool replace = true) {
        return self(libi_options_set_replace_master(get(), replace));
    }
    options &engine(libi_engine engine) { return self(libi_options_set_engine(get(), engine)); }
    options &agent(const std::string &program) {
        return self(libi_options_set_agent(get(), program.c_str()));
    }
    options &agent_file(const std::string &file) {
        return self(libi_options_set_agent_file(get(), file.c_str()));
    }
    /** The session goes on without a front end for so long; see libi_options_set_detached(). */
    options &detached(const std::string &ticket, milliseconds limit) {
        return self(libi_options_set_detached(get(), ticket.c_str(), detail::timeout_of(limit)));
    }
    /** The host and the program that keep it; this machine and this program if they are empty. */
    options &keeper(const std::string &host, const std::string &program, bool reachable = false) {
        return self(libi_options_set_keeper(get(), host.empty() ? nullptr : host.c_str(),
            program.empty() ? nullptr : program.c_str(), reachable));
    }
    options &any_programs(bool any = true) { return self(libi_options_set_any_programs(get(), any)); }
    options &backend(libi_backend backend) { return self(libi_options_set_backend(get(), backend, nullptr)); }
    options &backend(libi_backend backend, const std::string &program) {
        return self(libi_options_set_backend(get(), backend, program.c_str()));
    }
    options &ssh_option(const std::string &option) {
        return self(libi_options_add_ssh_option(get(), nullptr, option.c_str()));
    }
};

/** Where the ranks of a session run. */
class layout : public detail::owned<libi_layout, libi_layout_free> {
public:
    using owned::owned;
    std::uint32_t size() const noexcept { return info().size; }
    std::uint32_t hosts() const noexcept { return info().hosts; }
    /** The name of a host; empty if there is no such host. */
    std::string host_name(std::uint32_t host) const {
        return detail::string(detail::query<libi_layout_host_info>(libi_layout_host, get(), host).name);
    }
    /** The name of the host of a rank; empty if there is no such rank. */
    std::string host_name_of(std::uint32_t rank) const {
        libi_layout_rank_info found;
        bool is_there = libi_layout_rank(get(), rank, &found, sizeof found) == LIBI_RESULT_OK;
        return is_there ? host_name(found.host) : std::string();
    }

private:
    libi_layout_info info() const noexcept {
        return detail::query<libi_layout_info>(libi_layout_query, get());
    }
};

/** The result of a launch. */
class report : public detail::owned<libi_report, libi_report_free> {
public:
    using owned::owned;
    libi_report_info info() const noexcept {
        return detail::query<libi_report_info>(libi_report_query, get());
    }
    bool is_up() const noexcept { return info().is_up; }
    std::uint32_t hosts() const noexcept { return info().hosts; }
    std::uint32_t joined() const noexcept { return info().joined; }
    std::chrono::microseconds took() const noexcept { return std::chrono::microseconds(info().took); }
    libi_report_host_info host(std::uint32_t host) const noexcept {
        return detail::query<libi_report_host_info>(libi_report_host, get(), host);
    }
    /** Why a host has not joined, as text; empty if it has. */
    std::string failure(std::uint32_t host) const { return detail::text_of(this->host(host).failure); }
    std::string text() const { return detail::string(libi_report_text(get())); }
    std::string json() const { return detail::string(libi_report_json(get())); }
    std::string svg() const { return detail::string(libi_report_svg(get())); }
};

/** Something that has happened in a session. */
class event : public detail::owned<libi_event, libi_event_free> {
public:
    using owned::owned;
    /** All of it; strings and bytes are valid as long as this object. */
    libi_event_info info() const noexcept { return detail::query<libi_event_info>(libi_event_query, get()); }
    libi_event_kind kind() const noexcept { return info().kind; }
    std::uint32_t session() const noexcept { return info().session; }
    std::int64_t rank() const noexcept { return info().rank; }
    int stream() const noexcept { return info().stream; }
    bytes output() const noexcept {
        libi_event_info all = info();
        return bytes(all.bytes, all.length);
    }
    libi_exit exit() const noexcept { return info().exit; }
    int exit_value() const noexcept { return info().exit_value; }
    std::string host_name() const { return detail::string(info().host_name); }
    /** The event as one line for people. */
    std::string text() const { return detail::string(info().text); }
    /** Why a host was lost, as text. */
    std::string failure() const { return detail::text_of(info().failure); }
};

/** Several distributions. */
using distributions = std::vector<std::reference_wrapper<const distribution>>;

namespace detail {
/** As C takes them. */
inline std::vector<const libi_distribution *> handles(const distributions &all) {
    std::vector<const libi_distribution *> found;
    for (const distribution &one : all) found.push_back(one.get());
    return found;
}
} // namespace detail

/** Processes of a job of another launcher, in the order of their ranks. */
class processes : public detail::owned<libi_processes, libi_processes_free> {
public:
    using owned::owned;
    std::size_t size() const noexcept { return libi_processes_count(get()); }
    /** A process, whose strings are valid as long as this object; zeros if there is none. */
    libi_processes_entry_info entry(std::size_t index) const noexcept {
        return detail::query<libi_processes_entry_info>(libi_processes_entry, get(), index);
    }
};

/** A job of another launcher. It goes on when this object is gone. */
class job : public detail::owned<libi_job, libi_job_free> {
public:
    using owned::owned;
    /** The job that the process with this ID has launched, on this machine. */
    static job attach(std::int32_t pid, milliseconds timeout) {
        libi_job *found = nullptr;
        detail::check(libi_job_attach(pid, &found, detail::timeout_of(timeout)));
        return job(found);
    }
    /** As attach(), for a front end of libi that has several sessions: the one with this number. */
    static job attach_to_session(std::int32_t pid, std::uint32_t session, milliseconds timeout) {
        libi_job *found = nullptr;
        detail::check(libi_job_attach_to_session(pid, session, &found, detail::timeout_of(timeout)));
        return job(found);
    }
    /** As attach(), for a launcher on another host. The options need an agent. */
    static job attach_on(const std::string &host, std::int32_t pid, const options &how,
                         milliseconds timeout) {
        libi_job *found = nullptr;
        const auto wait = detail::timeout_of(timeout);
        detail::check(libi_job_attach_on(host.c_str(), pid, how.get(), &found, wait));
        return job(found);
    }
    /** A step of a Slurm job, as "123.0", or the only step of a job, whose srun runs on this machine. */
    static job attach_to_slurm(const std::string &step, milliseconds timeout) {
        libi_job *found = nullptr;
        detail::check(libi_job_attach_to_slurm(step.c_str(), &found, detail::timeout_of(timeout)));
        return job(found);
    }
    /** Launches a job by its launcher, with its ranks held in front of their program for this long at most. */
    static job launch(const std::vector<std::string> &launcher, const std::vector<std::string> &program,
                      milliseconds hold, milliseconds timeout) {
        const auto words = [](const std::vector<std::string> &strings) {
            std::vector<const char *> pointers;
            for (const std::string &word : strings) pointers.push_back(word.c_str());
            pointers.push_back(nullptr);
            return pointers;
        };
        libi_job *begun = nullptr;
        detail::check(libi_job_launch(words(launcher).data(), words(program).data(), hold.count(), &begun,
                                      detail::timeout_of(timeout)));
        return job(begun);
    }
    libi_job_info info() const noexcept { return detail::query<libi_job_info>(libi_job_query, get()); }
    /** The hosts, as the launcher names them. */
    std::vector<std::string> hosts() const {
        std::vector<std::string> names;
        for (std::uint32_t host = 0; host < info().hosts; ++host)
            names.push_back(detail::string(libi_job_host(get(), host)));
        return names;
    }
    /** The processes that are known. */
    libi::processes processes() const { return make<libi::processes, libi_processes>(libi_job_processes); }
    /** Waits for the end of the launcher. Whether it has ended; *status as of waitpid(), or -1. */
    bool wait(milliseconds timeout, int *status = nullptr) const {
        return detail::check(libi_job_wait(get(), status, detail::timeout_of(timeout)));
    }
};

/** The processes of a job on this host, in a daemon beside it. */
class targets : public detail::owned<libi_targets, libi_targets_free> {
public:
    using owned::owned;
    std::size_t size() const noexcept { return libi_targets_count(get()); }
    /** A target, whose string is valid as long as this object; zeros if there is none. */
    libi_targets_entry_info entry(std::size_t index) const noexcept {
        return detail::query<libi_targets_entry_info>(libi_targets_entry, get(), index);
    }
    /** Lets a target that is held go on to its program. */
    void release(std::size_t index, milliseconds timeout) const {
        detail::check(libi_targets_release(get(), index, detail::timeout_of(timeout)));
    }
    /** Waits for the next target that ends. False at the timeout, and when all were told. */
    bool next_end(std::uint32_t &rank, milliseconds timeout) const {
        return detail::check(libi_targets_next_end(get(), &rank, detail::timeout_of(timeout)));
    }
};

/** A watch of a job: how its processes end. The job is left alone. */
class watch : public detail::owned<libi_watch, libi_watch_free> {
public:
    using owned::owned;
    /** Watches a job. The options name an agent, and say how the hosts are reached. */
    static watch of(const job &what, const options &how) {
        libi_watch *made = nullptr;
        detail::check(libi_job_watch(what.get(), how.get(), &made));
        return watch(made);
    }
    /** Waits for the next event; false at the timeout, or at once if nothing more follows. */
    bool next(libi_watch_event_info &event, milliseconds timeout) {
        return detail::check(libi_watch_next(get(), &event, sizeof event, detail::timeout_of(timeout)));
    }
};

/** A session. The destructor ends it: members that have not detached are killed. */
class session : public detail::owned<libi_session, libi_session_free> {
public:
    using owned::owned;
    libi_session_info info() const {
        libi_session_info info;
        detail::check(libi_session_query(get(), &info, sizeof info));
        return info;
    }
    std::uint32_t number() const { return info().number; }
    std::uint32_t size() const { return info().size; }
    libi_stage stage() const { return info().stage; }
    /** The rank of the master, with which the front end exchanges messages. */
    std::uint32_t master() const noexcept { return libi_session_master(get()); }
    libi::layout layout() const { return make<libi::layout, libi_layout>(libi_session_layout); }
    /** Empty while the launch is not decided. */
    libi::report report() const { return make<libi::report, libi_report>(libi_session_report); }
    /** The ranks of a group. */
    std::vector<std::uint32_t> ranks(libi_ranks group) const {
        return detail::ranks_of(libi_session_ranks, get(), group);
    }
    void wait_up(milliseconds timeout) const {
        detail::check(libi_session_wait_up(get(), detail::timeout_of(timeout)));
    }
    void wait_done(milliseconds timeout) const {
        detail::check(libi_session_wait_done(get(), detail::timeout_of(timeout)));
    }
    void write(bytes what, milliseconds timeout) {
        detail::check(libi_session_write(get(), what.data(), what.size(), detail::timeout_of(timeout)));
    }
    void close_input() { detail::check(libi_session_close_input(get())); }
    void kill(int signal) { detail::check(libi_session_kill(get(), signal)); }
    void terminate(milliseconds grace) {
        detail::check(libi_session_terminate(get(), detail::timeout_of(grace)));
    }
    /** Starts a lost member again, and waits until the new process has joined. */
    void restart(std::uint32_t rank, milliseconds timeout) {
        detail::check(libi_session_restart(get(), rank, detail::timeout_of(timeout)));
    }
    /** As restart(), for a member whose host is lost: it starts on this host, with all that were lost with it. */
    void restart_on(std::uint32_t rank, const std::string &host, milliseconds timeout) {
        detail::check(libi_session_restart_on(get(), rank, host.c_str(), detail::timeout_of(timeout)));
    }
    /** Chooses what follows when a member is lost from now on. */
    void set_on_loss(libi_on_loss on_loss) { detail::check(libi_session_set_on_loss(get(), on_loss)); }
    /** As restart(), but does not wait: an event has the answer. */
    void request_restart(std::uint32_t rank) { detail::check(libi_session_request_restart(get(), rank)); }
    /** As restart_on(), but does not wait. */
    void request_restart_on(std::uint32_t rank, const std::string &host) {
        detail::check(libi_session_request_restart_on(get(), rank, host.c_str()));
    }
    /** Launches further members, and waits until they take part. */
    libi_growth add(const distribution &what) { return add(distributions{what}); }
    libi_growth add(const distributions &what) {
        libi_growth growth = {};
        const auto all = detail::handles(what);
        detail::check(libi_session_add(get(), all.data(), all.size(), &growth, sizeof growth));
        return growth;
    }
    /** As add(), but does not wait: an event has the answer. */
    void request_add(const distributions &what) {
        const auto all = detail::handles(what);
        detail::check(libi_session_request_add(get(), all.data(), all.size()));
    }
    void send(bytes what, milliseconds timeout) {
        detail::check(libi_session_send(get(), what.data(), what.size(), detail::timeout_of(timeout)));
    }
    data recv(milliseconds timeout) { return wait_for_data<data>(timeout, libi_session_recv); }
    /** To all members, which call broadcast_from_front(). */
    void broadcast(bytes what, milliseconds timeout) {
        detail::check(libi_session_broadcast(get(), what.data(), what.size(), detail::timeout_of(timeout)));
    }
    /** What all members pass to gather_to_front(): a part for each rank. */
    data gather(milliseconds timeout) { return wait_for_data<data>(timeout, libi_session_gather); }
    /** All processes of the job that this session was launched beside. Called once. */
    processes processes_of(const job &of, milliseconds timeout) {
        libi_processes *all = nullptr;
        detail::check(libi_session_processes_of(get(), of.get(), &all, detail::timeout_of(timeout)));
        return processes(all);
    }
    /** Lets ranks of a job that are held go on to their program. Daemons call release_when_told(). */
    void release(const std::vector<std::uint32_t> &ranks, milliseconds timeout) {
        detail::check(
            libi_session_release(get(), ranks.data(), ranks.size(), detail::timeout_of(timeout)));
    }
    pending start_send(bytes what) {
        return make<pending, libi_pending>(libi_session_start_send, what.data(), what.size());
    }
    pending start_recv() { return make<pending, libi_pending>(libi_session_start_recv); }
};

/** A front end. The destructor ends all its sessions but those that are detached. */
class front_end : public detail::owned<libi_front, libi_front_free> {
public:
    explicit front_end(libi_progress progress = LIBI_PROGRESS_THREAD) {
        libi_front *front = nullptr;
        detail::check(libi_front_new(progress, &front));
        reset(front);
    }
    /** Several distributions: front.launch({daemons, back_ends}, options). */
    using distributions = libi::distributions;
    /** Launches one session, and waits until it is up. If it does not come up, report() explains it. */
    session launch(const distribution &what, const options &how = options()) {
        return std::move(launch(distributions{what}, how).front());
    }
    /** Launches sessions side by side, one for each session number of the distributions. */
    std::vector<session> launch(const distributions &what, const options &how = options()) {
        return begin(libi_front_launch, what, how);
    }
    /** As launch(), but does not wait: session.wait_up() does. */
    session start(const distribution &what, const options &how = options()) {
        return std::move(start(distributions{what}, how).front());
    }
    std::vector<session> start(const distributions &what, const options &how = options()) {
        return begin(libi_front_start, what, how);
    }
    /** Launches a daemon for each so many processes of a job; if that is 0, one on each of its hosts. */
    session launch_beside(const job &of, const distribution &daemon, const options &how = options(),
                          std::uint32_t processes = 0) {
        libi_session *begun = nullptr;
        detail::check(libi_front_launch_beside(get(), of.get(), processes, daemon.get(), how.get(), &begun));
        return session(begun);
    }
    /** The session that was launched with options::detached() and has this ticket file. */
    session attach(const std::string &ticket, milliseconds timeout) {
        libi_session *found = nullptr;
        detail::check(libi_front_attach(get(), ticket.c_str(), detail::timeout_of(timeout), &found));
        return session(found);
    }
    /** The report of the last launch() that has failed; empty if there is none. */
    libi::report report() const { return make<libi::report, libi_report>(libi_front_report); }
    /** The next event; empty if there is none within the timeout. */
    event next_event(milliseconds timeout) {
        libi_event *found = nullptr;
        detail::check(libi_front_next_event(get(), &found, detail::timeout_of(timeout)));
        return event(found);
    }
    int descriptor() const noexcept { return libi_front_descriptor(get()); }
    milliseconds next_timeout() const noexcept {
        return detail::milliseconds_of(libi_front_next_timeout(get()));
    }
    void dispatch() { detail::check(libi_front_dispatch(get())); }

private:
    template <class Begin>
    std::vector<session> begin(Begin begin, const distributions &what, const options &how) {
        const auto all = detail::handles(what);
        std::vector<libi_session *> begun(all.size(), nullptr);
        std::vector<session> sessions;
        sessions.reserve(begun.size());
        detail::check(begin(get(), all.data(), all.size(), how.get(), begun.data(), begun.size()));
        for (libi_session *one : begun)
            if (one) sessions.emplace_back(one);
        return sessions;
    }
};

/** How members were lost, as me.losses() found it. */
class losses : public detail::owned<libi_losses, libi_losses_free> {
public:
    using owned::owned;
    std::size_t size() const noexcept { return libi_losses_count(get()); }
    /** A loss, whose strings are valid as long as this object; zeros if there is none. */
    libi_losses_entry_info entry(std::size_t index) const noexcept {
        return detail::query<libi_losses_entry_info>(libi_losses_entry, get(), index);
    }
    /** The members that were lost together. */
    std::vector<std::uint32_t> ranks(std::size_t index) const {
        return detail::ranks_of(libi_losses_ranks, get(), index);
    }
    std::string host_name(std::size_t index) const { return detail::string(entry(index).host_name); }
    /** A loss as one line for people. */
    std::string text(std::size_t index) const { return detail::string(entry(index).text); }
};

/** This process as a member of a session. */
class member : public detail::owned<libi_member, libi_member_free> {
public:
    using owned::owned;
    member() noexcept = default;
    /** Joins the session that this process was started for; empty if it was started by hand. */
    static member init(libi_progress progress = LIBI_PROGRESS_THREAD) {
        libi_member *object = nullptr;
        libi_result result = libi_member_init(progress, &object);
        if (result != LIBI_ERR_STARTED_BY_HAND) detail::check(result);
        return member(object);
    }
    std::uint32_t rank() const noexcept { return libi_member_rank(get()); }
    std::uint32_t size() const noexcept { return libi_member_size(get()); }
    /** The rank of the master, which talks to the front end. */
    std::uint32_t master() const noexcept { return libi_member_master(get()); }
    bool is_master() const noexcept { return libi_member_is_master(get()); }
    std::uint32_t host() const noexcept { return info().host; }
    std::string host_name() const { return detail::string(info().host_name); }
    libi_member_info info() const noexcept {
        return detail::query<libi_member_info>(libi_member_query, get());
    }
    /** The ranks of a group, as far as this process knows. */
    std::vector<std::uint32_t> ranks(libi_ranks group) const {
        return detail::ranks_of(libi_member_ranks, get(), group);
    }
    /** How members were lost, as far as this process knows. */
    libi::losses losses() const { return make<libi::losses, libi_losses>(libi_member_losses); }
    /** The processes of the job on this host, in a daemon that was launched beside it. Called once. */
    libi::targets targets(milliseconds timeout) {
        libi_targets *found = nullptr;
        detail::check(libi_member_targets(get(), &found, detail::timeout_of(timeout)));
        return libi::targets(found);
    }
    /** Lets those of these targets go that the front end names, and returns how many ranks it has named. */
    std::size_t release_when_told(const libi::targets &of, milliseconds timeout) {
        std::size_t released = 0;
        detail::check(
            libi_member_release_when_told(get(), of.get(), &released, detail::timeout_of(timeout)));
        return released;
    }
    /** How often this member was restarted; 0 for a process that was launched with the session. */
    std::uint32_t restarts() const noexcept { return libi_member_restarts(get()); }
    /** The number of the first collective call in which this member takes part, counted from 0. */
    std::uint64_t first_call(milliseconds timeout) {
        std::uint64_t call = 0;
        detail::check(libi_member_first_call(get(), &call, detail::timeout_of(timeout)));
        return call;
    }

    void barrier(milliseconds timeout) {
        detail::check(libi_member_barrier(get(), detail::timeout_of(timeout)));
    }
    void fence(milliseconds timeout) { detail::check(libi_member_fence(get(), detail::timeout_of(timeout))); }
    /** The root's bytes, at all members. */
    data broadcast(std::uint32_t root, bytes what, milliseconds timeout) {
        return wait_for_data<data>(timeout, libi_member_broadcast, root, what.data(), what.size());
    }
    /** The bytes of all members, a part for each rank, at the root; empty at other members. */
    data gather(std::uint32_t root, bytes what, milliseconds timeout) {
        return wait_for_data<data>(timeout, libi_member_gather, root, LIBI_LENGTHS_ANY, what.data(),
                                   what.size());
    }
    data allgather(bytes what, milliseconds timeout) {
        return wait_for_data<data>(timeout, libi_member_allgather, LIBI_LENGTHS_ANY, what.data(),
                                   what.size());
    }
    /** This member's part of the root's parts, of which there is one for each rank. */
    data scatter(std::uint32_t root, const std::vector<bytes> &what, milliseconds timeout) {
        detail::parts all(what);
        return wait_for_data<data>(timeout, libi_member_scatter, root, all.data.data(), all.sizes.data(),
                                   what.size());
    }
    /** Sends a part to each rank, and receives one from each. */
    data alltoall(const std::vector<bytes> &what, milliseconds timeout) {
        detail::parts all(what);
        return wait_for_data<data>(timeout, libi_member_alltoall, LIBI_LENGTHS_ANY, all.data.data(),
                                   all.sizes.data(), what.size());
    }
    /** The numbers of all members combined element by element: uint8_t, (u)int32_t, (u)int64_t, float or
     *  double. */
    template <class T> std::vector<T> allreduce(libi_op op, std::vector<T> numbers, milliseconds timeout) {
        detail::check(libi_member_allreduce(get(), detail::element<T>::value, op, numbers.data(),
                                            numbers.size(), numbers.data(), detail::timeout_of(timeout)));
        return numbers;
    }
    /** The same at the root; other members get their own numbers back. */
    template <class T>
    std::vector<T> reduce(std::uint32_t root, libi_op op, std::vector<T> numbers, milliseconds timeout) {
        detail::check(libi_member_reduce(get(), root, detail::element<T>::value, op, numbers.data(),
                                         numbers.size(), numbers.data(), detail::timeout_of(timeout)));
        return numbers;
    }

    /** As allreduce(), of the numbers of this member and of all members of lower rank. */
    template <class T> std::vector<T> scan(libi_op op, std::vector<T> numbers, milliseconds timeout) {
        detail::check(libi_member_scan(get(), detail::element<T>::value, op, numbers.data(), numbers.size(),
                                       numbers.data(), detail::timeout_of(timeout)));
        return numbers;
    }
    /** As scan(), without the numbers of this member. The first member, the lowest rank that is not absent,
     *  gets its own numbers back: no member is before it. */
    template <class T> std::vector<T> exscan(libi_op op, std::vector<T> numbers, milliseconds timeout) {
        detail::check(libi_member_exscan(get(), detail::element<T>::value, op, numbers.data(), numbers.size(),
                                         numbers.data(), detail::timeout_of(timeout)));
        return numbers;
    }

    /** From the master to the front end. */
    void send(bytes what, milliseconds timeout) {
        detail::check(libi_member_send(get(), what.data(), what.size(), detail::timeout_of(timeout)));
    }
    /** From the front end to the master. */
    data recv(milliseconds timeout) { return wait_for_data<data>(timeout, libi_member_recv); }
    /** What the front end sends with session::broadcast(), at all members. */
    data broadcast_from_front(milliseconds timeout) {
        return wait_for_data<data>(timeout, libi_member_broadcast_from_front);
    }
    /** To session::gather() of the front end, from all members. */
    void gather_to_front(bytes what, milliseconds timeout) {
        detail::check(
            libi_member_gather_to_front(get(), what.data(), what.size(), detail::timeout_of(timeout)));
    }
    void send_to(std::uint32_t rank, std::uint32_t tag, bytes what, milliseconds timeout) {
        detail::check(
            libi_member_send_to(get(), rank, tag, what.data(), what.size(), detail::timeout_of(timeout)));
    }
    data recv_from(std::uint32_t rank, std::uint32_t tag, milliseconds timeout) {
        return wait_for_data<data>(timeout, libi_member_recv_from, rank, tag);
    }
    void put(const std::string &key, bytes value, libi_key_scope scope, milliseconds timeout) {
        detail::check(libi_member_put(get(), key.c_str(), value.data(), value.size(), scope,
                                      detail::timeout_of(timeout)));
    }
    /** The value of a key; waits until a member puts one. */
    data get_value(const std::string &key, milliseconds timeout) {
        return wait_for_data<data>(timeout, libi_member_get, key.c_str());
    }
    /** The value of a key; empty if there is none. */
    data find(const std::string &key, milliseconds timeout) {
        return wait_for_data<data>(timeout, libi_member_find, key.c_str());
    }

    pending start_barrier() { return make<pending, libi_pending>(libi_member_start_barrier); }
    pending start_fence() { return make<pending, libi_pending>(libi_member_start_fence); }
    pending start_broadcast(std::uint32_t root, bytes what) {
        return make<pending, libi_pending>(libi_member_start_broadcast, root, what.data(), what.size());
    }
    pending start_gather(std::uint32_t root, bytes what) {
        return make<pending, libi_pending>(libi_member_start_gather, root, LIBI_LENGTHS_ANY, what.data(),
                                           what.size());
    }
    pending start_allgather(bytes what) {
        return make<pending, libi_pending>(libi_member_start_allgather, LIBI_LENGTHS_ANY, what.data(),
                                           what.size());
    }
    pending start_send(bytes what) {
        return make<pending, libi_pending>(libi_member_start_send, what.data(), what.size());
    }
    pending start_recv() { return make<pending, libi_pending>(libi_member_start_recv); }

    /** The last call of a program that ends when its work is done. Flush output before. */
    void drain(milliseconds timeout) { detail::check(libi_member_drain(get(), detail::timeout_of(timeout))); }
    /** Detaches this process from the session, to live on. */
    void detach(milliseconds timeout) {
        detail::check(libi_member_detach(get(), detail::timeout_of(timeout)));
    }
    int descriptor() const noexcept { return libi_member_descriptor(get()); }
    milliseconds next_timeout() const noexcept {
        return detail::milliseconds_of(libi_member_next_timeout(get()));
    }
    void dispatch() { detail::check(libi_member_dispatch(get())); }
};

} // namespace libi

#endif // LIBI_HPP
