// Commands as a shell takes them.

const quoted = (word: string): string => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replace(/'/g, "'\"'\"'")}'`);

/** A command to copy, its words quoted where they must be. */
export const typed = (...words: string[]): string => words.map(quoted).join(" ");
