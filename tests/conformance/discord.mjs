// Another vendor's Discord client against an emulator: node discord.mjs <base of the emulator> <bot token>
//
// Greets a mention with buttons, edits on press, asks for a reason in a form, answers a command late, opens a thread,
// returns a file. Writes one JSON line per thing that it got; ends when its standard input does.
import {
  ActionRowBuilder,
  ButtonBuilder,
  ButtonStyle,
  Client,
  ContainerBuilder,
  Events,
  GatewayIntentBits,
  MessageFlags,
  ModalBuilder,
  Partials,
  TextDisplayBuilder,
  TextInputBuilder,
  TextInputStyle,
} from 'discord.js';

const [base, token] = process.argv.slice(2);
const tell = (what, more = {}) => process.stdout.write(`${JSON.stringify({ what, ...more })}\n`);

const client = new Client({
  intents: [
    GatewayIntentBits.Guilds,
    GatewayIntentBits.GuildMessages,
    GatewayIntentBits.GuildMessageReactions,
    GatewayIntentBits.DirectMessages,
    GatewayIntentBits.MessageContent,
  ],
  partials: [Partials.Channel, Partials.Message, Partials.Reaction],
  rest: { api: `${base}/api`, retries: 0 },
});

const button = (id, label, style) => new ButtonBuilder().setCustomId(id).setLabel(label).setStyle(style);
const row = (...parts) => new ActionRowBuilder().addComponents(...parts);

async function greet(message) {
  await message.channel.sendTyping();
  const buttons = row(button('go', 'Go', ButtonStyle.Primary), button('why', 'Why', ButtonStyle.Secondary));
  await message.reply({ content: 'Hello', components: [buttons], allowedMentions: { parse: [] } });
}

const deeds = {
  thread: async (message) => {
    const thread = await message.startThread({ name: 'A thread', autoArchiveDuration: 60 });
    await thread.send('in thread');
    await thread.setName('Another name');
  },
  card: async (message) => {
    const card = new ContainerBuilder()
      .setAccentColor(0x336699)
      .addTextDisplayComponents(new TextDisplayBuilder().setContent('**Working**'))
      .addActionRowComponents(row(button('stop', 'Stop', ButtonStyle.Danger)));
    await message.channel.send({ components: [card], flags: MessageFlags.IsComponentsV2 });
  },
  history: async (message) => {
    const found = await message.channel.messages.fetch({ limit: 2 });
    tell('history', { texts: found.map((one) => one.content) });
  },
  errors: async (message) => {
    const refused = [];
    const note = (error) => refused.push(error.code);
    await message.channel.send('x'.repeat(2001)).catch(note);
    await message.channel.messages.fetch('1').catch(note);
    await message.channel.send({ content: '', embeds: [] }).catch(note);
    await message.startThread({ name: 'one' });
    await client.rest.post(`/channels/${message.channelId}/messages/${message.id}/threads`, { body: { name: 'two' } })
      .catch(note);
    tell('refused', { refused });
  },
  nonce: async (message) => {
    const send = () => message.channel.send({ content: 'once', nonce: 'n1', enforceNonce: true });
    tell('nonce', { same: (await send()).id === (await send()).id });
  },
};

client.on(Events.MessageCreate, async (message) => {
  if (message.author.bot) return;
  tell('message', { text: message.content, direct: message.guild === null });
  if (message.mentions.has(client.user)) await greet(message);
  await deeds[message.content]?.(message);
  for (const file of message.attachments.values()) {
    const text = await (await fetch(file.url)).text();
    await message.channel.send({ content: text, files: [{ attachment: Buffer.from('result'), name: 'r.txt' }] });
  }
});

client.on(Events.MessageUpdate, (_, message) => tell('edit', { text: message.content }));
client.on(Events.MessageDelete, (message) => tell('delete', { id: message.id }));
client.on(Events.MessageReactionAdd, (reaction) => tell('reaction', { name: reaction.emoji.name }));

client.on(Events.InteractionCreate, async (interaction) => {
  if (interaction.isButton() && interaction.customId === 'go') {
    await interaction.update({ content: 'pressed', components: [] });
  } else if (interaction.isButton()) {
    const text = new TextInputBuilder().setCustomId('text').setLabel('Why?').setStyle(TextInputStyle.Short);
    await interaction.showModal(new ModalBuilder().setCustomId('reason').setTitle('Reason').addComponents(row(text)));
  } else if (interaction.isModalSubmit()) {
    tell('reason', { value: interaction.fields.getTextInputValue('text') });
    await interaction.reply({ content: 'noted', flags: MessageFlags.Ephemeral });
  } else if (interaction.isChatInputCommand()) {
    await interaction.deferReply();
    await interaction.editReply(`late ${interaction.options.getString('text')}`);
    await interaction.followUp('later');
  } else if (interaction.isMessageContextMenuCommand()) {
    await interaction.reply(`stopped ${interaction.targetMessage.content}`);
  }
});

client.on(Events.ShardResume, () => tell('resumed'));
client.on(Events.Error, (error) => tell('error', { message: String(error) }));
process.on('unhandledRejection', (error) => tell('error', { message: String(error) }));

client.once(Events.ClientReady, async () => {
  await client.application.commands.set([
    { name: 'echo', description: 'Echoes', options: [{ name: 'text', description: 'What', type: 3, required: true }] },
    { name: 'Stop agent', type: 3 },
  ]);
  const [guild] = client.guilds.cache.values();
  tell('started', { bot: client.user.id, guild: guild.name, channels: guild.channels.cache.map((one) => one.name) });
});

process.stdin.resume();
process.stdin.on('end', async () => {
  await client.destroy();
  process.exit(0);
});
await client.login(token);
