# Completion of farpage's verbs and options for fish. They come from the program's --help.

# __farpage_listed PROGRAM [VERB...]: prints the entries of the program's --help, one a line, with tabs between the
# parts: a verb and its text; an option, its text and the kind of its value; or "=" and the kind of the verb's own
# argument.
function __farpage_listed
    set -l verbs 0
    for line in (command $argv --help 2>/dev/null)
        if test "$line" = verbs:
            set verbs 1
        else if test -z "$line"
            set verbs 0
        else if string match -q -- '  --*' $line
            string replace -rf '^  (--[a-z-]+)(?: ([^ ]+))?  +(.*)' '$1\t$3\t$2' -- $line
        else if test $verbs = 1
            string replace -rf '^  ([a-z]+) +(.*)' '$1\t$2' -- $line
        else
            string replace -rf '^usage: farpage(?: [a-z]+)+ \[?([A-Z]+)\]?(?: .*)?$' '=\t$1' -- $line
        end
    end
end

# __farpage_value KIND OPTION WORD: prints the values of that kind.
function __farpage_value
    switch $argv[1]
        case FILE PATH
            __fish_complete_path $argv[3]
        case URI
            string join \n tcp:// rdma:// auto://
        case KIND
            string join \n auto ublk fuse
        case CGROUP
            set -l groups /sys/fs/cgroup/$argv[3]*/
            string replace -r '/sys/fs/cgroup/(.*)/' '$1' -- $groups
        case NAME
            switch "$argv[2]"
                case --engine
                    string join \n auto pager swap
                case --name
                case '*'
                    set -l devices /run/farpage/*
                    string replace -r '.*/' '' -- $devices
            end
    end
end

function __farpage_complete
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    set -l program $words[1]
    command -q $program; or set program farpage
    command -q $program; or return
    set -e words[1]
    set -l verbs
    set -l listed (__farpage_listed $program)
    # Takes words as verbs, as long as verbs of these names exist.
    while string match -qr -- '^[a-z]' $words[1]; and string match -q -- $words[1]\t'*' $listed
        set -a verbs $words[1]
        set -e words[1]
        set listed (__farpage_listed $program $verbs)
    end

    if test "$verbs" = run; and contains -- -- $words
        # After "--" comes a command with words of its own.
        set -e words[1..(contains -i -- -- $words)]
        complete -C "$words $word"
        return
    end
    if set -q words[1]
        set -l option (string match -- $words[-1]\t'*' $listed | string split \t)
        if test -n "$option[3]"
            __farpage_value $option[3] $option[1] $word
            return
        end
    end
    for line in $listed
        set -l part (string split \t -- $line)
        if test "$part[1]" = "="
            __farpage_value $part[2] '' $word
        else if string match -q -- '-*' $part[1]; or test "$words" = ''; or test "$verbs $words" = ' help'
            string join \t -- $part[1..2]
        end
    end
    if test "$verbs$words" = ''
        printf '%s\t%s\n' help 'print the help of a verb' --version 'print the version'
    end
    test "$verbs" = run; and printf '%s\t%s\n' -- 'what follows is the command'
    printf '%s\t%s\n' --help 'print help'
end

complete -c farpage -f -a '(__farpage_complete)'
