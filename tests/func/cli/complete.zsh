# complete.zsh COMPLETION LOG: sourced by an interactive zsh. From then on each Tab appends to LOG what the line can be
# completed to, one a line, and a line "end".
fpath=($1:h $fpath)
completion_log=$2
LISTMAX=1000000
unsetopt beep list_beep auto_menu
autoload -Uz compinit
compinit -u -D
zstyle ':completion:*' menu no

compadd() {
	local -a matches
	# With these options it tells matches to its caller, and adds none.
	if [[ ${@[1,(i)(-|--)]} != *-[a-zA-Z]#[OAD]\ * ]]; then
		builtin compadd -A matches "$@"
		(( ! $#matches )) || print -rl -- $matches >>$completion_log
	fi
	builtin compadd "$@"
}

complete_and_tell() {
	zle complete-word
	print end >>$completion_log
}
zle -N complete_and_tell
bindkey '^I' complete_and_tell
