// The judge of patterns: what Soufflé does with them. Reads lines of a pattern and a text in hexadecimal, and
// writes for each 1 (all of the text matches), 0, e (no pattern) or t (std::regex backtracks for too long).
#include <csetjmp>
#include <csignal>
#include <iostream>
#include <regex>
#include <string>
#include <sys/time.h>

static sigjmp_buf out_of_time;

static void stop(int) { siglongjmp(out_of_time, 1); }

static void alarm_after(long milliseconds) {
    itimerval timer = {};
    timer.it_value.tv_usec = milliseconds * 1000;
    setitimer(ITIMER_REAL, &timer, nullptr);
}

static std::string bytes(const std::string& digits) {
    std::string found;
    for (size_t at = 0; at + 1 < digits.size(); at += 2) found += static_cast<char>(std::stoi(digits.substr(at, 2), nullptr, 16));
    return found;
}

int main() {
    std::signal(SIGALRM, stop);
    std::string line;
    while (std::getline(std::cin, line)) {
        const auto space = line.find(' ');
        const std::string pattern = bytes(line.substr(0, space)), text = bytes(line.substr(space + 1));
        char answer = 't';
        if (sigsetjmp(out_of_time, 1) == 0) {
            alarm_after(50);
            try {
                answer = std::regex_match(text, std::regex(pattern)) ? '1' : '0';
            } catch (const std::regex_error&) {
                answer = 'e';
            }
        }
        alarm_after(0);
        std::cout << answer << '\n';
    }
}
