/** libi for C++: the objects of libi.h as types that free themselves, with exceptions for codes. C++14 or newer; nothing to link
 *  beside libi.
 *
 *      libi::member me = libi::member::init();              // empty if this program was started by hand
 *      if (me) {
 *          std::string order = me.broadcast(0, me.recv(5s).str(), 5s).str();
 *          me.finish(5s);
 *      } else {
 *          libi::front_end front;
 *          libi::session session = front.launch(libi::distribution(0, "./daemon").on("node[01-64]:2"),
 *                                               libi::options().via_ssh());
 *          session.send("begin", 5s);
 *          while (auto event = front.next_event(60s))        // empty when 60 s have passed
 *              if (event.kind() == LIBI_EVENT_DONE) break;
 *      }
 *
 *  What holds for all of them:
 *  - Each type stands for the type of libi.h with the same name (front_end for libi_front), whose documentation holds: who may use it
 *    when, what a function does. get() gives the object to functions of libi.h that have none here; it stays this one's.
 *  - They can be moved, not copied, and free what they have at their end. One that is empty (moved from, or "there is none") is
 *    false where a bool is asked for.
 *  - A code that is a failure is thrown as libi::error, with the text of the object. What is none (LIBI_NOT_YET, LIBI_NONE) is an empty
 *    object or false. Who wants codes instead of exceptions calls libi.h with get().
 *  - Patience is in std::chrono::milliseconds, or in what becomes that without loss, as 5s: libi::forever sets no limit, and less than
 *    nothing does not wait. Bytes are anything with data() and size(), or a text.
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

/** No limit to the time that a call may take. */
constexpr milliseconds forever = milliseconds::max();

/** A call has failed. */
class error : public std::runtime_error {
public:
    error(libi_result code, const char *text)
        : std::runtime_error(text && *text ? text : describe(code)), code_(code) {}
    /** One of LIBI_ERR_…. */
    libi_result code() const noexcept { return code_; }

private:
    static const char *describe(libi_result code) {
        const char *text = libi_result_text(code);
        return text ? text : "no code of libi";
    }
    libi_result code_;
};

/** Bytes of somebody else's, as a call takes them. */
class bytes {
public:
    bytes() noexcept : data_(nullptr), size_(0) {}
    bytes(const void *data, std::size_t size) noexcept : data_(data), size_(size) {}
    bytes(std::nullptr_t) = delete;
    bytes(const char *text) : data_(text), size_(std::strlen(text)) {}
    /** A std::string, std::string_view, std::vector, std::array, std::span…: what is in it is taken as it lies in memory. */
    template <class C, class T = std::remove_pointer_t<decltype(std::declval<const C &>().data())>,
              class = decltype(std::declval<const C &>().size()), class = std::enable_if_t<!std::is_same<C, bytes>::value>>
    bytes(const C &all) : data_(all.data()), size_(all.size() * sizeof(T)) {
        static_assert(std::is_trivially_copyable<T>::value, "only what is its bytes can be sent as bytes");
    }
    const char *data() const noexcept { return static_cast<const char *>(data_); }
    std::size_t size() const noexcept { return size_; }
    std::string str() const { return size_ ? std::string(data(), size_) : std::string(); }

private:
    const void *data_;
    std::size_t size_;
};

namespace detail {

/** Time that is over, as that until a deadline that has passed, does not wait; libi.h means something else by it. */
inline libi_millis millis(milliseconds time) noexcept {
    return time == forever ? LIBI_FOREVER : time.count() < 0 ? 0 : time.count();
}
inline milliseconds patience(libi_millis time) noexcept { return time < 0 ? forever : milliseconds(time); }

/** What has no text of its own. */
template <class T> const char *no_text(const T *) noexcept { return nullptr; }

/** What frees itself, and throws what fails. */
template <class T, void (*Free)(T *), const char *(*Text)(const T *) = no_text<T>> class owned {
public:
    owned() noexcept = default;
    explicit owned(T *object) noexcept : object_(object) {}
    owned(owned &&other) noexcept : object_(other.release()) {}
    owned &operator=(owned &&other) noexcept {
        if (this != &other) reset(other.release());
        return *this;
    }
    ~owned() { Free(object_); }

    /** The object of libi.h, which stays this one's. */
    T *get() const noexcept { return object_; }
    /** Gives it away: to be freed by its function of libi.h. */
    T *release() noexcept { return std::exchange(object_, nullptr); }
    /** Frees it, and has another one. */
    void reset(T *object = nullptr) noexcept { Free(std::exchange(object_, object)); }
    explicit operator bool() const noexcept { return object_ != nullptr; }

protected:
    /** Whether there is something. */
    bool check(libi_result result) const {
        if (result == LIBI_OK) return true;
        if (result == LIBI_NOT_YET || result == LIBI_NONE) return false;
        throw error(result, Text(object_));
    }
    /** What a function gives in the place behind these arguments. */
    template <class Given, class Place, class Call, class... Arguments>
    Given give(Call call, Arguments... arguments) const {
        Place *place = nullptr;
        libi_result result = call(object_, arguments..., &place);
        Given given(place);
        check(result);
        return given;
    }
    /** What comes of a call that waits. */
    template <class Data, class Call, class... Arguments>
    Data wait_for_data(milliseconds patience, Call call, Arguments... arguments) const {
        libi_data *all = nullptr;
        check(call(object_, arguments..., &all, millis(patience)));
        return Data(all);
    }

private:
    T *object_ = nullptr;
};

inline std::string string(const char *text) { return text ? text : ""; }

/** Which of LIBI_ELEMENT_… a type is. */
template <class T> struct element;
template <> struct element<std::uint8_t> : std::integral_constant<libi_element, LIBI_ELEMENT_U8> {};
template <> struct element<std::int32_t> : std::integral_constant<libi_element, LIBI_ELEMENT_I32> {};
template <> struct element<std::uint32_t> : std::integral_constant<libi_element, LIBI_ELEMENT_U32> {};
template <> struct element<std::int64_t> : std::integral_constant<libi_element, LIBI_ELEMENT_I64> {};
template <> struct element<std::uint64_t> : std::integral_constant<libi_element, LIBI_ELEMENT_U64> {};
template <> struct element<float> : std::integral_constant<libi_element, LIBI_ELEMENT_F32> {};
template <> struct element<double> : std::integral_constant<libi_element, LIBI_ELEMENT_F64> {};

/** A part for each rank, as calls of C take them. */
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

/** Bytes that have come: one part, or one for each rank. Empty where nothing comes, as at others than the root. */
class data : public detail::owned<libi_data, libi_data_free> {
public:
    using owned::owned;
    /** How many parts there are. */
    std::size_t size() const noexcept { return libi_data_count(get()); }
    /** A part, as long as this lives. */
    bytes operator[](std::size_t index) const noexcept {
        return bytes(libi_data_bytes(get(), index), libi_data_length(get(), index));
    }
    /** A copy of a part, the only one usually, as text. */
    std::string str(std::size_t index = 0) const { return (*this)[index].str(); }
    /** A copy of a part as numbers. */
    template <class T> std::vector<T> numbers(std::size_t index = 0) const {
        bytes part = (*this)[index];
        std::vector<T> all(part.size() / sizeof(T));
        if (!all.empty()) std::memcpy(all.data(), part.data(), all.size() * sizeof(T));
        return all;
    }
};

/** An operation that was started, as by me.start_barrier(), or by libi_member_start_…() and pending(object). */
class pending : public detail::owned<libi_pending, libi_pending_free, libi_pending_error> {
public:
    using owned::owned;
    /** Waits until it is over, and gives what has come of it; it is given up when patience ends. */
    data wait(milliseconds patience) {
        if (!check(libi_pending_wait(get(), detail::millis(patience)))) return data();
        return take();
    }
    /** Waits until it is over, which it may not be when patience ends: it goes on then. */
    bool wait_for(milliseconds patience) { return is_over(libi_pending_wait_for(get(), detail::millis(patience))); }
    /** Whether it is over. */
    bool poll() { return is_over(libi_pending_poll(get())); }
    /** What has come of it, once it is over. */
    data take() {
        return give<data, libi_data>(libi_pending_take);
    }
    void cancel() { check(libi_pending_cancel(get())); }

private:
    bool is_over(libi_result result) const { return check(result) || result == LIBI_NONE; }
};

/** Hosts, and how many processes on each. */
class hosts : public detail::owned<libi_hosts, libi_hosts_free, libi_hosts_error> {
public:
    hosts() : owned(libi_hosts_new()) {}
    /** The hosts of a text such as "node[001-064]:8". */
    explicit hosts(const std::string &list) : hosts() { parse(list); }
    hosts &parse(const std::string &list) { return self(libi_hosts_parse(get(), list.c_str())); }
    hosts &parse_file(const std::string &text) { return self(libi_hosts_parse_file(get(), text.c_str())); }
    /** Whether there is a job, whose hosts are added. */
    bool add_job() { return check(libi_hosts_add_job(get())); }
    hosts &add(const std::string &name, std::uint32_t count = 1) {
        return self(libi_hosts_add(get(), name.c_str(), nullptr, 0, count));
    }
    hosts &place(std::uint64_t processes, libi_placement how, std::uint32_t plane = 1, bool repeat = false) {
        return self(libi_hosts_place(get(), processes, how, plane, repeat));
    }
    std::size_t size() const noexcept { return libi_hosts_count(get()); }
    std::uint64_t processes() const noexcept { return libi_hosts_processes(get()); }
    std::string name(std::size_t index) const { return detail::string(libi_hosts_name(get(), index)); }
    std::uint32_t slots(std::size_t index) const noexcept { return libi_hosts_slots(get(), index); }
    std::string fold() const { return detail::string(libi_hosts_fold(get())); }

private:
    hosts &self(libi_result result) {
        check(result);
        return *this;
    }
};

/** A set of equal processes of one session. Each function gives the object itself, so that they can be written behind each other. */
class distribution : public detail::owned<libi_distribution, libi_distribution_free, libi_distribution_error> {
public:
    distribution(std::uint32_t session, const std::string &executable)
        : owned(libi_distribution_new(session, executable.c_str())) {}
    distribution &on(const std::string &list) { return self(libi_distribution_set_host_list(get(), list.c_str())); }
    distribution &on(const hosts &list) { return self(libi_distribution_set_hosts(get(), list.get())); }
    distribution &arg(const std::string &arg) { return self(libi_distribution_add_arg(get(), arg.c_str())); }
    distribution &env(const std::string &name, const std::string &value) {
        return self(libi_distribution_set_env(get(), name.c_str(), value.c_str()));
    }
    distribution &directory(const std::string &path) {
        return self(libi_distribution_set_directory(get(), path.c_str()));
    }

private:
    distribution &self(libi_result result) {
        check(result);
        return *this;
    }
};

/** How a launch is to go. Each function gives the object itself. */
class options : public detail::owned<libi_options, libi_options_free, libi_options_error> {
public:
    options() : owned(libi_options_new()) {}
    options &require_all() { return self(libi_options_require_all(get())); }
    options &require(std::uint32_t hosts) { return self(libi_options_require(get(), hosts)); }
    options &until_up() { return self(libi_options_until_up(get())); }
    options &spares(const hosts &list) { return self(libi_options_set_spares(get(), list.get())); }
    options &deadline(milliseconds most) { return self(libi_options_set_deadline(get(), detail::millis(most))); }
    options &rule(libi_rule rule, std::int64_t value) { return self(libi_options_set_rule(get(), rule, value)); }
    options &rule(libi_rule rule, milliseconds value) { return this->rule(rule, value.count()); }
    options &input(bool wanted = true) { return self(libi_options_set_input(get(), wanted)); }
    options &output_to_events() { return self(libi_options_output_to_events(get())); }
    options &output_to_files(const std::string &path) {
        return self(libi_options_output_to_files(get(), path.c_str()));
    }
    options &output_dropped() { return self(libi_options_output_dropped(get())); }
    options &links(libi_links links) { return self(libi_options_set_links(get(), links)); }
    options &allow_plain(bool allow = true) { return self(libi_options_allow_plain(get(), allow)); }
    options &via_local() { return self(libi_options_via_local(get())); }
    options &via_ssh() { return self(libi_options_via_ssh(get())); }
    options &via_rsh(bool redone = true) { return self(libi_options_via_rsh(get(), redone)); }
    options &via_shell(const std::string &program) { return self(libi_options_via_shell(get(), program.c_str())); }
    options &ssh_option(const std::string &option) { return self(libi_options_add_ssh_option(get(), option.c_str())); }

private:
    options &self(libi_result result) {
        check(result);
        return *this;
    }
};

/** Where the ranks of a session are. */
class layout : public detail::owned<libi_layout, libi_layout_free> {
public:
    using owned::owned;
    std::uint32_t size() const noexcept { return libi_layout_size(get()); }
    std::size_t hosts() const noexcept { return libi_layout_hosts(get()); }
    std::string host_name(std::size_t host) const { return detail::string(libi_layout_host_name(get(), host)); }
    /** The name of the host that a rank is on; empty if there is no such rank. */
    std::string host_name_of(std::uint32_t rank) const {
        std::int64_t host = libi_layout_host_of(get(), rank);
        return host < 0 ? std::string() : host_name(static_cast<std::size_t>(host));
    }
};

/** What became of a launch. */
class report : public detail::owned<libi_report, libi_report_free> {
public:
    using owned::owned;
    bool is_up() const noexcept { return libi_report_is_up(get()); }
    std::size_t hosts() const noexcept { return libi_report_hosts(get()); }
    std::size_t joined() const noexcept { return libi_report_joined(get()); }
    std::chrono::microseconds took() const noexcept { return std::chrono::microseconds(libi_report_took(get())); }
    /** Why a host is not in the session, in words; empty if it is. */
    std::string failure(std::size_t host) const {
        return detail::string(libi_failure_text(libi_report_failure(get(), host)));
    }
    std::string text() const { return detail::string(libi_report_text(get())); }
    std::string json() const { return detail::string(libi_report_json(get())); }
    std::string svg() const { return detail::string(libi_report_svg(get())); }
};

/** Something that has happened in a session. */
class event : public detail::owned<libi_event, libi_event_free> {
public:
    using owned::owned;
    libi_event_kind kind() const noexcept { return libi_event_kind_of(get()); }
    std::uint32_t session() const noexcept { return libi_event_session(get()); }
    std::int64_t rank() const noexcept { return libi_event_rank(get()); }
    int stream() const noexcept { return libi_event_stream(get()); }
    bytes output() const noexcept { return bytes(libi_event_bytes(get()), libi_event_length(get())); }
    libi_exit exit() const noexcept { return libi_event_exit(get()); }
    int exit_value() const noexcept { return libi_event_exit_value(get()); }
    std::string host_name() const { return detail::string(libi_event_host_name(get())); }
    /** Why a host was lost, in words. */
    std::string failure() const { return detail::string(libi_failure_text(libi_event_failure(get()))); }
};

/** A session. Its end frees it, and members that were not released are killed. */
class session : public detail::owned<libi_session, libi_session_free, libi_session_error> {
public:
    using owned::owned;
    std::uint32_t id() const noexcept { return libi_session_id(get()); }
    std::uint32_t size() const noexcept { return libi_session_size(get()); }
    libi_stage stage() const noexcept { return libi_session_stage(get()); }
    libi::layout layout() const { return libi::layout(libi_session_layout(get())); }
    /** Empty if there is no verdict yet. */
    libi::report report() const {
        return give<libi::report, libi_report>(libi_session_report);
    }
    void wait_up(milliseconds most) const { check(libi_session_wait_up(get(), detail::millis(most))); }
    void wait_done(milliseconds most) const { check(libi_session_wait_done(get(), detail::millis(most))); }
    void write(bytes what, milliseconds most) {
        check(libi_session_write(get(), what.data(), what.size(), detail::millis(most)));
    }
    void close_input() { check(libi_session_close_input(get())); }
    void kill(int signal) { check(libi_session_kill(get(), signal)); }
    void terminate(milliseconds grace) { check(libi_session_terminate(get(), detail::millis(grace))); }
    void send(bytes what, milliseconds most) {
        check(libi_session_send(get(), what.data(), what.size(), detail::millis(most)));
    }
    data recv(milliseconds most) { return wait_for_data<data>(most, libi_session_recv); }
    pending start_send(bytes what) {
        return give<pending, libi_pending>(libi_session_start_send, what.data(), what.size());
    }
    pending start_recv() { return give<pending, libi_pending>(libi_session_start_recv); }
};

/** Launches sessions. Its end frees it, and ends them. */
class front_end : public detail::owned<libi_front, libi_front_free, libi_front_error> {
public:
    explicit front_end(libi_progress who = LIBI_PROGRESS_THREAD) {
        libi_front *front = nullptr;
        libi_result result = libi_front_new(who, &front);
        reset(front);
        check(result);
    }
    /** Several distributions: front.launch({daemons, back_ends}, how). */
    using distributions = std::vector<std::reference_wrapper<const distribution>>;
    /** Launches one session, and waits until it is up. If it does not come up, report() says why. */
    session launch(const distribution &what, const options &how = options()) {
        return std::move(launch(distributions{what}, how).front());
    }
    /** Launches sessions side by side, one for each number that the distributions bear. */
    std::vector<session> launch(const distributions &what, const options &how = options()) {
        return begin(libi_front_launch, what, how);
    }
    /** As launch(), and does not wait: session.wait_up() does. */
    session start(const distribution &what, const options &how = options()) {
        return std::move(start(distributions{what}, how).front());
    }
    std::vector<session> start(const distributions &what, const options &how = options()) {
        return begin(libi_front_start, what, how);
    }
    /** The report on the last launch() that did not succeed; empty if there was none. */
    libi::report report() const {
        return give<libi::report, libi_report>(libi_front_report);
    }
    /** What has happened next; empty if nothing has in this time. */
    event next_event(milliseconds most) {
        return give<event, libi_event>(libi_front_next_event, detail::millis(most));
    }
    int descriptor() const noexcept { return libi_front_descriptor(get()); }
    milliseconds patience() const noexcept { return detail::patience(libi_front_patience(get())); }
    void dispatch() { check(libi_front_dispatch(get())); }

private:
    template <class Begin> std::vector<session> begin(Begin begin, const distributions &what, const options &how) {
        std::vector<const libi_distribution *> given;
        for (const distribution &one : what) given.push_back(one.get());
        std::vector<libi_session *> begun(given.size(), nullptr);
        std::vector<session> sessions;
        sessions.reserve(begun.size());
        check(begin(get(), given.data(), given.size(), how.get(), begun.data(), begun.size()));
        for (libi_session *one : begun)
            if (one) sessions.emplace_back(one);
        return sessions;
    }
};

/** This process, as a member of a session. Roots of collective calls are ranks; all members make the same calls in the same order. */
class member : public detail::owned<libi_member, libi_member_free, libi_member_error> {
public:
    using owned::owned;
    member() noexcept = default;
    /** Takes the place that this process was started for; empty if it was started by hand, and may be a front end itself. */
    static member init(libi_progress who = LIBI_PROGRESS_THREAD) {
        libi_member *object = nullptr;
        libi_result result = libi_member_init(who, &object);
        member me(object);
        if (result == LIBI_ERR_STARTED_BY_HAND) return member();
        me.check(result);
        return me;
    }
    std::uint32_t rank() const noexcept { return libi_member_rank(get()); }
    std::uint32_t size() const noexcept { return libi_member_size(get()); }
    bool is_master() const noexcept { return libi_member_is_master(get()); }
    std::uint32_t host() const noexcept { return libi_member_host(get()); }
    std::string host_name() const { return detail::string(libi_member_host_name(get())); }

    void barrier(milliseconds patience) { check(libi_member_barrier(get(), detail::millis(patience))); }
    void fence(milliseconds patience) { check(libi_member_fence(get(), detail::millis(patience))); }
    /** What the root gives, at everybody. */
    data broadcast(std::uint32_t root, bytes what, milliseconds patience) {
        return wait_for_data<data>(patience, libi_member_broadcast, root, what.data(), what.size());
    }
    /** Everybody's bytes, a part for each rank, at the root; empty elsewhere. */
    data gather(std::uint32_t root, bytes what, milliseconds patience) {
        return wait_for_data<data>(patience, libi_member_gather, root, what.data(), what.size());
    }
    data allgather(bytes what, milliseconds patience) {
        return wait_for_data<data>(patience, libi_member_allgather, what.data(), what.size());
    }
    /** This member's part of what the root gives: a part for each rank. */
    data scatter(std::uint32_t root, const std::vector<bytes> &what, milliseconds patience) {
        detail::parts all(what);
        return wait_for_data<data>(patience, libi_member_scatter, root, all.data.data(), all.sizes.data(), what.size());
    }
    /** Gives a part to each rank, and gets one of each. */
    data alltoall(const std::vector<bytes> &what, milliseconds patience) {
        detail::parts all(what);
        return wait_for_data<data>(patience, libi_member_alltoallv, all.data.data(), all.sizes.data(), what.size());
    }
    /** Everybody's numbers combined element by element, at everybody: uint8_t, (u)int32_t, (u)int64_t, float, double. */
    template <class T> std::vector<T> allreduce(libi_op op, std::vector<T> numbers, milliseconds patience) {
        check(libi_member_allreduce(get(), detail::element<T>::value, op, numbers.data(), numbers.size(), numbers.data(),
                                    detail::millis(patience)));
        return numbers;
    }
    /** The same at the root alone; elsewhere what was given comes back. */
    template <class T> std::vector<T> reduce(std::uint32_t root, libi_op op, std::vector<T> numbers, milliseconds patience) {
        check(libi_member_reduce(get(), root, detail::element<T>::value, op, numbers.data(), numbers.size(), numbers.data(),
                                 detail::millis(patience)));
        return numbers;
    }

    /** To the front end; others than the master do nothing by it. */
    void send(bytes what, milliseconds patience) {
        check(libi_member_send(get(), what.data(), what.size(), detail::millis(patience)));
    }
    /** From the front end; others than the master get nothing, at once. */
    data recv(milliseconds patience) { return wait_for_data<data>(patience, libi_member_recv); }
    void send_to(std::uint32_t rank, std::uint32_t tag, bytes what, milliseconds patience) {
        check(libi_member_send_to(get(), rank, tag, what.data(), what.size(), detail::millis(patience)));
    }
    data recv_from(std::uint32_t rank, std::uint32_t tag, milliseconds patience) {
        return wait_for_data<data>(patience, libi_member_recv_from, rank, tag);
    }
    void put(const std::string &key, bytes value, libi_spread spread, milliseconds patience) {
        check(libi_member_put(get(), key.c_str(), value.data(), value.size(), spread, detail::millis(patience)));
    }
    /** The value of a key; waits until there is one. */
    data get_value(const std::string &key, milliseconds patience) { return wait_for_data<data>(patience, libi_member_get, key.c_str()); }
    /** The value of a key; empty if there is none. */
    data find(const std::string &key, milliseconds patience) { return wait_for_data<data>(patience, libi_member_find, key.c_str()); }

    pending start_barrier() { return give<pending, libi_pending>(libi_member_start_barrier); }
    pending start_fence() { return give<pending, libi_pending>(libi_member_start_fence); }
    pending start_broadcast(std::uint32_t root, bytes what) {
        return give<pending, libi_pending>(libi_member_start_broadcast, root, what.data(), what.size());
    }
    pending start_gather(std::uint32_t root, bytes what) {
        return give<pending, libi_pending>(libi_member_start_gather, root, what.data(), what.size());
    }
    pending start_allgather(bytes what) { return give<pending, libi_pending>(libi_member_start_allgather, what.data(), what.size()); }
    pending start_send(bytes what) { return give<pending, libi_pending>(libi_member_start_send, what.data(), what.size()); }
    pending start_recv() { return give<pending, libi_pending>(libi_member_start_recv); }

    /** The last call of a program that ends when its work is done. Flush what was printed before. */
    void finish(milliseconds patience) { check(libi_member_finish(get(), detail::millis(patience))); }
    /** Releases this process from the session, to live on. */
    void finalize(milliseconds patience) { check(libi_member_finalize(get(), detail::millis(patience))); }
    int descriptor() const noexcept { return libi_member_descriptor(get()); }
    milliseconds patience() const noexcept { return detail::patience(libi_member_patience(get())); }
    void dispatch() { check(libi_member_dispatch(get())); }
};

} // namespace libi

#endif // LIBI_HPP
